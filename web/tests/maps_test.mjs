// Maps of long inputs: what the page says of a cell is the mean of the weights there, and everything works by keys.
import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateSync } from "node:zlib";
import { hash_of, open, report_of } from "./browser.mjs";

const kQueries = 150;
const kKeys = 210;
const kParts = [150, 105]; // of the finest level: a row each, and two keys
const weight = (i, j) => (((i * 7 + j * 13) % 29) + (Math.abs(i - j) < 3 ? 200 : 0)) / 1000;

const base64 = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString("base64");
const part = (at, parts, count) => Math.floor((at * parts) / count);

// Means of all weights under each cell, in plain loops.
function level(halvings) {
  const [rows, columns] = kParts.map((parts) => Math.ceil(parts / 2 ** halvings));
  const sums = new Float64Array(rows * columns);
  const counts = new Float64Array(rows * columns);
  for (let i = 0; i < kQueries; ++i) {
    for (let j = 0; j < kKeys; ++j) {
      const at = (part(i, kParts[0], kQueries) >> halvings) * columns + (part(j, kParts[1], kKeys) >> halvings);
      sums[at] += weight(i, j);
      ++counts[at];
    }
  }
  const means = sums.map((sum, at) => sum / counts[at]);
  const largest = Math.max(...means);
  const bytes = Uint8Array.from(means, (mean) => Math.round(254 * Math.sqrt(mean / largest)));
  const tiles = [];
  const kTile = 64;
  for (let top = 0; top < rows; top += kTile) {
    for (let left = 0; left < columns; left += kTile) {
      const tile = [];
      for (let i = top; i < Math.min(rows, top + kTile); ++i) {
        tile.push(...bytes.subarray(i * columns + left, i * columns + Math.min(columns, left + kTile)));
      }
      tiles.push(base64(deflateSync(Uint8Array.from(tile))));
    }
  }
  return { rows, columns, largest, tiles };
}

const row_of = (query) => Float32Array.from({ length: kKeys }, (_, j) => weight(query, j));

function maps() {
  const keys = new Int32Array(kQueries * 32);
  const weights = new Float32Array(kQueries * 32);
  for (let i = 0; i < kQueries; ++i) {
    const row = row_of(i);
    [...row.keys()]
      .sort((a, b) => row[b] - row[a])
      .slice(0, 32)
      .forEach((key, n) => ([keys[i * 32 + n], weights[i * 32 + n]] = [key, row[key]]));
  }
  const levels = [0, 1, 2].map(level);
  return {
    schema: "qkv/explain/1",
    kind: "maps",
    version: "1",
    target: "avx2",
    dtype: "f32",
    title: "150 queries, 210 keys, 2 heads",
    queries: kQueries,
    keys: kKeys,
    tile: 64,
    whole: false,
    heads: [
      { batch: 0, head: 0, levels, top: null, rows: [] },
      {
        batch: 0,
        head: 1,
        levels,
        top: { count: 32, keys: base64(keys), weights: base64(weights) },
        rows: [{ query: 20, weights: base64(row_of(20)) }],
      },
    ],
  };
}

const said = (page) => page.locator("qkv-map output").innerText();

// "Queries 3 to 4, keys 5 to 6: mean weight about 0.01; ...", of the means in plain loops.
function check_cell(text) {
  const [, , i0, i1, , j0, j1, mean] =
    /^(Quer\w+) (\d+)(?: to (\d+))?, (keys?) (\d+)(?: to (\d+))?: mean weight about ([\d.e+-]+);/.exec(text) ?? [];
  assert.ok(mean, text);
  let [sum, count] = [0, 0];
  for (let i = Number(i0); i <= Number(i1 ?? i0); ++i) {
    for (let j = Number(j0); j <= Number(j1 ?? j0); ++j, ++count) sum += weight(i, j);
  }
  assert.ok(Math.abs(sum / count - Number(mean)) < 0.002, `${text}, not ${sum / count}`); // a byte's rounding
  return count;
}

test("a cell tells the mean of the weights under it, at every enlargement", async () => {
  const { page, close } = await open(report_of(maps()), { width: 400 });
  const canvas = page.locator("qkv-map canvas");
  const { width, height } = await canvas.boundingBox();
  for (const [x, y] of [
    [2, 2],
    [width - 3, height - 3],
    [width / 3, height / 2],
  ]) {
    await canvas.hover({ position: { x, y } });
    check_cell(await said(page));
  }
  await canvas.focus();
  const counts = [];
  for (let i = 0; i < 9; ++i) {
    await page.keyboard.press("+");
    counts.push(check_cell(await said(page)));
  }
  assert.equal(counts.at(-1), 2, "the finest level is a row of two keys");
  await close();
});

test("axes and a legend tell what is where, at every enlargement, in numbers or tokens", async () => {
  const { page, close } = await open(report_of(maps()));
  const ticks = async (axis) => (await page.locator(`qkv-map .of-${axis} span`).allInnerTexts()).map(Number);
  const canvas = page.locator("qkv-map canvas");
  await canvas.focus();
  for (const keys of ["", "+++++"]) {
    for (const key of keys) await page.keyboard.press(key);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))); // it is drawn
    for (const axis of ["keys", "queries"]) {
      const all = await ticks(axis);
      assert.ok(all.length > 3, `${axis}: ${all}`);
      // A tick stands at the middle of its number: where the page says that it is.
      const box = await canvas.boundingBox();
      const tick = await page.locator(`qkv-map .of-${axis} span`).nth(2).boundingBox();
      const at = axis === "keys" ? tick.x + tick.width / 2 - box.x : tick.y + tick.height / 2 - box.y;
      await canvas.hover({ position: axis === "keys" ? { x: at, y: 9 } : { x: 9, y: at } });
      const range = new RegExp(`${axis === "keys" ? "key" : "quer\\w+"}s? (\\d+)(?: to (\\d+))?`, "i").exec(await said(page));
      const [from, to] = [Number(range[1]), Number(range[2] ?? range[1])];
      assert.ok(from <= all[2] && all[2] <= to, `${axis} ${all[2]}: ${from} to ${to}`);
    }
  }
  const [least, most] = await page.locator("qkv-map .legend .figure").allInnerTexts();
  const { largest } = level(0);
  assert.equal(least, "0");
  assert.ok(Math.abs(Number.parseFloat(most) - largest) < 0.01 * largest, `${most}, not ${largest}`);
  await close();
});

test("by keys: it moves, enlarges, shows all, and chooses a query", async () => {
  const { page, close } = await open(report_of(maps()), { hash: "#head=0.1" });
  await page.locator("qkv-map canvas").focus();
  for (const key of ["+", "+", "ArrowRight", "ArrowDown"]) await page.keyboard.press(key);
  assert.match(await hash_of(page), /at=2\.25,0\.5(5|6)\d*,0\.5(5|6)\d*/);
  await page.keyboard.press("0");
  assert.doesNotMatch(await hash_of(page), /at=/);
  await page.keyboard.press("Enter");
  assert.match(await hash_of(page), /token=75/);
  const rows = await page.locator(".maps table tbody tr").allInnerTexts();
  const row = row_of(75);
  const best = [...row.keys()].sort((a, b) => row[b] - row[a])[0];
  assert.equal(rows.length, 32);
  assert.match(rows[0], new RegExp(`^key ${best}\\s+${row[best].toFixed(5)}$`));
  await close();
});

test("the pointer drags it, the wheel enlarges what is under it, a click chooses", async () => {
  const { page, close } = await open(report_of(maps()));
  const box = await page.locator("qkv-map canvas").boundingBox();
  const at = (x, y) => [box.x + x * box.width, box.y + y * box.height];
  await page.mouse.move(...at(0.25, 0.25));
  const before = await said(page);
  await page.mouse.wheel(0, -600);
  while (!(await hash_of(page)).includes("at=")) await page.waitForTimeout(20); // it follows when the wheel rests
  await page.mouse.move(...at(0.2501, 0.25));
  const first = (text) => text.match(/\d+/g).slice(0, 1).map(Number)[0];
  assert.ok(Math.abs(first(await said(page)) - first(before)) <= 4);
  const wheeled = await hash_of(page);
  await page.mouse.down();
  await page.mouse.move(...at(0.5, 0.5), { steps: 4 });
  await page.mouse.up();
  assert.notEqual(await hash_of(page), wheeled);
  assert.doesNotMatch(await hash_of(page), /token/);
  await page.mouse.click(...at(0.5, 0.5));
  assert.match(await hash_of(page), /token=\d+/);
  await close();
});

test("it says what is left out, and draws kept rows", async () => {
  const { page, close } = await open(report_of(maps()), { hash: "#head=0.1" });
  const about = await page.locator(".about").first().innerText();
  assert.match(about, /31,500 weights.*150 x 105 means over blocks of up to 1 x 2.*32 strongest keys and of 1 whole row\..*left out/);
  await page.getByRole("button", { name: "Row 20" }).click();
  assert.equal(await page.locator(".kept-row svg rect").count(), 210 + 2);
  await page.locator("select").first().selectOption("0.0");
  assert.match(await page.locator(".hint").innerText(), /no weights of query 20 are kept/);
  await close();
});

test("the drawn cells have the colours of their means", async () => {
  const { page, close } = await open(report_of(maps()));
  await page.waitForTimeout(200);
  const shades = await page.evaluate(() => {
    const canvas = document.querySelector("qkv-map canvas");
    const context = canvas.getContext("2d");
    const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
    const light = (x, y) => {
      const at = 4 * (Math.floor(y * canvas.height) * canvas.width + Math.floor(x * canvas.width));
      return data[at] + data[at + 1] + data[at + 2];
    };
    return [light(100.5 / 210, 100.5 / 150), light(0.9, 0.1)];
  });
  assert.ok(shades[0] < shades[1], "the diagonal is darker on light paper");
  await close();
});

// A model of one layer that read 150 tokens, of which 210 keys are another sequence.
function survey(translation = null) {
  const { tile, heads } = maps();
  const tokens = (name, count) => ({
    name,
    caption: name,
    tokens: Array.from({ length: count }, (_, i) => `<b>${name}${i}`),
    special: Array(count).fill(false),
    word_of: Array(count).fill(-1),
    words: [],
  });
  const measures = Object.fromEntries(
    ["entropy", "distance", "first", "previous", "next", "itself", "separators"].map((name) => [name, 0.25]),
  );
  return {
    ...{ schema: "qkv/explain/1", kind: "heads", version: "1", target: "avx2", dtype: "f32", title: "Heads" },
    input: "a long text",
    sequences: [tokens("t", kQueries), tokens("s", kKeys)],
    attentions: [
      {
        ...{ name: "attention", title: "", caption: "tokens attend to tokens", mask: "none", queries: "t", keys: "s" },
        ...{ layers: 1, heads: 2, model_dim: 8, score: "scaled-dot", largest_entropy: 5 },
        all: heads.map(({ head, levels, top, rows }) => ({
          ...{ layer: 0, head, ...measures, pattern: "none", value_norm: 1, value_lengths: [], weights: null },
          map: { tile, levels, top, rows },
        })),
      },
    ],
    translation,
  };
}

test("heads of a model that read many tokens are maps, with what is kept and what is not", async () => {
  const { page, close } = await open(report_of(survey()), { hash: "#head=0.1&token=20" });
  assert.equal(await page.locator(".all-heads img").count(), 2);
  assert.match(await page.locator(".one-head .about").innerText(), /31,500 weights.*150 x 105 means.*Of head 0\.1 .* 32 strongest keys/);
  assert.deepEqual(await page.locator(".sequence summary").allInnerTexts(), ["t 150 tokens", "s 210 tokens"]);
  const canvas = page.locator("qkv-map canvas");
  await canvas.hover({ position: { x: 2, y: 2 } });
  check_cell(await said(page));
  const best = [...row_of(20).keys()].sort((a, b) => row_of(20)[b] - row_of(20)[a])[0];
  const first = page.locator(".one-head table").first().locator("tbody tr").first();
  assert.equal((await first.innerText()).replace(/\s+/g, " "), `key ${best} <b>s${best} ${row_of(20)[best].toFixed(5)}`);
  await page.locator(".tile").first().click();
  assert.match(await page.locator(".one-head").innerText(), /no weights of query 20 are kept/);
  await page.getByRole("link", { name: "Model" }).click();
  assert.equal(await page.locator('a[href*="head=0.0"] image').count(), 1);
  await close();
});

test("the command of one head is without those that the report keeps", async () => {
  const text = String.raw`qkv explain --text 'it'\''s  --keep 1 x' --html a.html`;
  const report = { ...report_of(survey()), command: `${text} --keep 0.1,0.0 --keep-rows=20` };
  const { page, close } = await open(report, { hash: "#head=0.1" });
  assert.equal(await page.locator("footer code").textContent(), `${text} --layer 0 --head 1`);
  await close();
});

test("a long translation says that it has no weights of single tokens", async () => {
  const texts = { source_text: "s", target_text: "t", cut: 0, source_words: ["s"], target_words: ["t"] };
  const written = Array.from({ length: kQueries }, () => ({ token: "t", id: 1, probability: 0.5, candidates: [] }));
  const data = survey({ ...texts, word_alignment: [[1]], word_weights: [[1]], written });
  data.attentions[0].name = "encoder_decoder";
  const { page, close } = await open(report_of(data), { hash: "#token=3" });
  assert.match(await page.getByLabel("Heads", { exact: true }).innerText(), /file holds maps, not every weight/);
  await page.getByRole("link", { name: "All heads" }).click();
  assert.equal(await page.locator("qkv-map").count(), 1);
  await close();
});

test("maps of two runs are not subtracted, which is said", async () => {
  const { page, close } = await open({ ...report_of(survey()), beside: [survey()] }, { hash: "#run=difference" });
  assert.equal(await page.locator(".cannot").innerText(), "Of so many tokens a report holds maps, which are not subtracted.");
  assert.equal(await page.locator("qkv-map").count(), 1);
  await close();
});

test("broken maps are named", async () => {
  const faults = async (change) => {
    const data = maps();
    change(data);
    const { page, close } = await open(report_of(data));
    const text = await page.locator(".faults").innerText();
    await close();
    return text;
  };
  const { tiles } = maps().heads[0].levels[0];
  for (const tile of ["AAAA", "no base64", tiles[0].slice(0, -8), base64(deflateSync(new Uint8Array(4095)))]) {
    assert.match(await faults((data) => (data.heads[0].levels[0].tiles[0] = tile)), /4096 bytes, deflated, in base64/);
  }
  assert.match(await faults((data) => data.heads[0].levels[0].tiles.pop()), /tiles/);
  assert.match(await faults((data) => (data.heads[1].levels[1].rows = 3)), /tiles|size/);
  assert.match(await faults((data) => (data.heads[1].rows[0].query = 900)), /one of 150/);
});
