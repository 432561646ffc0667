// Where options meet: what the page of `qkv web` computes is what its own command computes in a terminal, to 1e-12, and
// what it refuses is refused there in the same words.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { go_to, new_file, open_file } from "./browser.mjs";
import { program, run } from "./program.mjs";

const folder = mkdtempSync(join(tmpdir(), "qkv-crossing-"));
after(() => rmSync(folder, { recursive: true }));

let example = "";
async function opened() {
  if (example === "") run("web", "--out", (example = new_file()));
  const { page, close } = await open_file(example, { hash: "#step=8" });
  await page.evaluate(() => {
    const make = URL.createObjectURL.bind(URL);
    URL.createObjectURL = (blob) => make((globalThis.saved = blob));
    HTMLAnchorElement.prototype.click = () => {};
  });
  return { page, close };
}

// NumPy's format 1.0, of f64.
function npy(name, rows) {
  const header = `{'descr': '<f8', 'fortran_order': False, 'shape': (${rows.length}, ${rows[0].length}), }`;
  const padded = `${header.padEnd(117)}\n`;
  const head = Buffer.from([0x93, ...Buffer.from("NUMPY"), 1, 0, padded.length, 0]);
  const numbers = Buffer.from(Float64Array.from(rows.flat()).buffer);
  const buffer = Buffer.concat([head, Buffer.from(padded), numbers]);
  writeFileSync(join(folder, name), buffer);
  return { name, mimeType: "application/octet-stream", buffer };
}
function csv(name, text) {
  writeFileSync(join(folder, name), text);
  return { name, mimeType: "text/csv", buffer: Buffer.from(text) };
}
const drop = (page, ...files) => page.locator(".live input[type=file]").setInputFiles(files);

// The policy of the page forbids to wait for a function in it.
async function until(holds) {
  for (let i = 0; i < 600; ++i) {
    const found = await holds();
    if (found) return found;
    await new Promise((done) => setTimeout(done, 50));
  }
  return assert.fail(`never: ${holds}`);
}

// The command that the page names, once it has all of these words, as a terminal runs it: files are where this test has them.
async function command_with(page, ...words) {
  const text = await until(async () => {
    const shown = await page.locator("footer code").first().textContent();
    return words.every((word) => shown.includes(word)) && shown;
  });
  return text.replace(/^qkv /, "");
}
const in_terminal = (words) => spawnSync("bash", ["-c", `exec "$0" ${words}`, program], { cwd: folder, encoding: "utf8", maxBuffer: 1 << 30 });

const number_of = (value) => (typeof value === "string" ? { nan: NaN, inf: Infinity, "-inf": -Infinity }[value] : value);

// The matrices of the step that is shown, as the page would save them: name -> rows of numbers. None is downloaded: chromium
// holds a second download back unless it has noticed a press of a button since the first, and that notice may come late.
async function saved(page) {
  await page.evaluate(() => void (globalThis.saved = undefined));
  await page.getByRole("button", { name: "CSV" }).click();
  const tables = (await page.evaluate(() => globalThis.saved.text())).split("\r\n\r\n");
  return new Map(
    tables.map((table) => {
      const [[name], ...rows] = table.trim().split("\r\n").map((line) => line.match(/"(?:[^"]|"")*"|[^,]+/g));
      return [name.replaceAll('"', ""), rows.map((row) => row.slice(1).map(Number))];
    }),
  );
}

// Every matrix of every step that both have; how many there were.
async function compare(page, words) {
  const { status, stdout, stderr } = in_terminal(`${words} --json`);
  assert.equal(status, 0, stderr);
  const tensors = JSON.parse(stdout).sections.flatMap(({ blocks }) => blocks.flatMap((block) => block.tensors));
  let count = 0;
  for (const step of [1, 2, 3, 4, 5, 6, 7, 8]) {
    await go_to(page, { step, cell: "" });
    await page.locator(`#step-${step}`).waitFor();
    for (const [title, rows] of await saved(page)) {
      const [, name, head] = /^(\w+)(?:, head (\d+))?$/.exec(title) ?? [];
      const tensor = tensors.find((one) => one.name === name);
      if (!tensor || tensor.values === null) continue;
      const values = head ? tensor.values[head - 1] : tensor.values;
      if (!Array.isArray(values[0]) || Array.isArray(values[0][0])) continue;
      const expected = values.map((row) => row.map(number_of));
      assert.deepEqual(rows.map((row) => row.length), expected.map((row) => row.length), title);
      rows.forEach((row, i) =>
        row.forEach((value, j) => {
          const wanted = expected[i][j];
          const same = Object.is(value, wanted) || Math.abs(value - wanted) <= 1e-12 * Math.max(1, Math.abs(wanted));
          assert.ok(same, `step ${step}, ${title} ${i},${j}: ${value}, not ${wanted}`);
          if (wanted === 0) assert.ok(Object.is(value, wanted), `step ${step}, ${title} ${i},${j}: sign of 0`);
        }),
      );
      ++count;
    }
  }
  return count;
}

const kHideInputTwo = async (page) => {
  await page.getByText("Mask", { exact: true }).click();
  await page.getByRole("button", { name: "are is seen by all" }).click();
};

test("heads with a mask and the look-ahead mask", async () => {
  const { page, close } = await opened();
  await page.locator(".live label", { hasText: "Heads" }).locator("select").selectOption("3");
  await command_with(page, "--heads 3");
  await page.getByLabel("Look-ahead mask").check();
  await command_with(page, "--heads 3", "--causal top-left");
  await kHideInputTwo(page);
  const words = await command_with(page, "--heads 3", "--causal top-left", "--mask '[[1,0,1],[1,0,1],[1,0,1]]'");
  assert.ok((await compare(page, words)) >= 12);
  await close();
});

test("arrays in files with the look-ahead mask, without heads and with them", async () => {
  const { page, close } = await opened();
  const inputs = [[0.5, -1.25, 3], [2, 0, -0.75], [1e-3, 4, 1], [-2, 2, 0.125], [0, 0, 0]];
  const weights = (name) => csv(`${name}.csv`, "0.5,1\n-1,0.25\n2,-0.5\n");
  await drop(page, npy("input.npy", inputs), ...["w_query", "w-key", "W_VALUE"].map(weights));
  await command_with(page, "--input ", "--w-query ", "--w-key ", "--w-value ");
  await page.getByLabel("Look-ahead mask").check();
  assert.ok((await compare(page, await command_with(page, "input.npy", "--causal top-left"))) >= 10);
  await page.locator(".live label", { hasText: "Heads" }).locator("select").selectOption("2");
  assert.ok((await compare(page, await command_with(page, "input.npy", "--causal top-left", "--heads 2"))) >= 12);
  await drop(page, csv("mask.csv", "1,0,0,1,1\n0,1,1,1,1\n1,1,1,1,1\n0,0,0,0,1\n1,1,0,1,1\n"));
  const words = await command_with(page, "input.npy", "--causal top-left", "--heads 2", "mask.csv");
  assert.ok((await compare(page, words)) >= 12); // the fourth query sees nothing
  await close();
});

test("-0 and infinities in files", async () => {
  const { page, close } = await opened();
  const keys = csv("w_key.csv", "1,0\n0,1\n1,1\n"), values = csv("w_value.csv", "1,2\n3,-1\n0,1\n");
  const queries = csv("w_query.csv", "0,1\n1,0\n1,1\n");
  await drop(page, npy("inputs.npy", [[-0, 1, 2], [1, -0, -0], [0, 0, -0]]), queries, keys, values);
  assert.ok((await compare(page, await command_with(page, "inputs.npy"))) >= 10);
  // As in the terminal: where that has a result the page has it, and else its words.
  for (const [name, rows] of [
    ["w_value.npy", [[Infinity, 2], [3, -1], [0, 1]]],
    ["w_key.npy", [[1, -Infinity], [0, 1], [1, 1]]],
    ["inputs.npy", [[NaN, 1, 2], [1, 0, 0], [0, 0, 1]]],
  ]) {
    await drop(page, npy(name, rows));
    assert.ok((await compare(page, await command_with(page, ` ${name}`))) >= 10, name);
  }
  await close();
});

test("a file that is still read when another change is answered keeps that change", async () => {
  const { page, close } = await opened();
  await page.evaluate(() => {
    const read = Blob.prototype.arrayBuffer;
    const held = new Promise((done) => (globalThis.go_on = done));
    Blob.prototype.arrayBuffer = async function () {
      await held;
      return read.call(this);
    };
  });
  await drop(page, csv("mask.csv", "1,0,1\n1,1,1\n0,1,1\n"));
  await page.getByLabel("Look-ahead mask").check();
  await command_with(page, "--causal top-left");
  await page.evaluate(() => globalThis.go_on());
  assert.ok((await compare(page, await command_with(page, "--causal top-left", "mask.csv"))) >= 8);
  await close();
});

test("what the engine refuses of options together is refused in the program's words, and the last result stays", async () => {
  const { page, close } = await opened();
  await page.locator(".live label", { hasText: "Heads" }).locator("select").selectOption("3");
  await command_with(page, "--heads 3");
  await page.getByLabel("Look-ahead mask").check();
  await drop(page, csv("mask.csv", "1,0,1\n1,1,1\n0,1,1\n"));
  const words = await command_with(page, "--heads 3", "--causal top-left", "mask.csv");
  const good = readFileSync(join(folder, "mask.csv"));
  for (const [file, option] of [
    [csv("mask.csv", "1,0\n1,1\n"), "--mask"],
    [csv("mask.csv", "1,x,1\n1,1,1\n1,1,1\n"), "--mask"],
    [csv("w_value.csv", "1,2\n3,4\n5,6\n7,8\n"), "--w-value"],
    [npy("w_out.npy", [[1, 2], [3, 4]]), "--w-out"],
  ]) {
    writeFileSync(join(folder, file.name), file.buffer);
    const named = `${option} ${folder}/${file.name}`;
    const given = words.includes(option) ? words.replace(new RegExp(`${option} ('[^']*'|\\S+)`), named) : `${words} ${named}`;
    const { status, stderr } = in_terminal(`${given} --json`);
    writeFileSync(join(folder, "mask.csv"), good);
    assert.ok(status === 2 || status === 3 || status === 4, `${given}: ${stderr}`);
    const wanted = stderr.trim().replace(/^qkv explain: /, "").replaceAll(`${folder}/`, "");
    await drop(page, file);
    const said = async () => (await page.locator(".live [role=alert]").allTextContents()).join().replace(/\/dropped-\d+\//, "");
    await until(async () => (await said()) === wanted);
    assert.equal(await command_with(page, "--heads 3"), words);
  }
  await page.getByLabel("Look-ahead mask").uncheck();
  const after = await until(async () => {
    const now = await command_with(page, "--heads 3", "mask.csv");
    return !now.includes("--causal") && now;
  });
  assert.ok((await compare(page, after)) >= 12);
  await close();
});
