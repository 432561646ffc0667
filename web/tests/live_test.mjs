// The page that computes: what the reader changes is what the program gives for the same command.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { faults_of } from "./axe.mjs";
import { go_to, hash_of, open_file } from "./browser.mjs";
import { as_shown, fill, numbers_of, open_example, open_model, page_of, settled, shown, tensor_of, until } from "./live.mjs";
import { model, native, root } from "./program.mjs";

const folder = mkdtempSync(join(tmpdir(), "qkv-live-"));
after(() => rmSync(folder, { recursive: true }));

test("the page of the worked example is small", () => {
  assert.ok(statSync(page_of("example", [])).size <= 1_702_000, `${statSync(page_of("example", [])).size} bytes`);
  assert.ok(statSync(page_of("model", ["--model", model])).size <= 20_000_000);
});

test("a changed weight gives the program's numbers, and back", async () => {
  const { page, close } = await open_example({ hash: "#step=2&cell=w_query:0.0" });
  await fill(page, "Number: w_query 1, 1", "3.5");
  await page.waitForSelector('td[data-id="w_query:0.0"]:has-text("3.5")');
  const w = JSON.stringify([[3.5, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]]);
  const expected = native("explain", "--w-query", w);
  await go_to(page, { step: 8, cell: "" });
  await page.waitForSelector('td[data-id="output:2.2"]');
  assert.deepEqual(as_shown(await numbers_of(page, "output")), shown(tensor_of(expected, "output")));
  await page.getByRole("button", { name: "Reset" }).click();
  assert.deepEqual(as_shown(await numbers_of(page, "output")), shown(tensor_of(native("explain"), "output")));
  await close();
});

test("the tutorial's rounded weights give 2.0 7.0 1.5", async () => {
  const { page, close } = await open_example({ hash: "#step=5&cell=weights:0.0" });
  await fill(page, "Put in: weights 1, 1", "0");
  await page.waitForSelector('button:has-text("Compute weights again")');
  for (const column of [1, 2]) {
    await page.locator(`td[data-id="weights:0.${column}"]`).click();
    await fill(page, `Put in: weights 1, ${column + 1}`, "0.5");
    await page.waitForSelector(`td[data-id="weights:0.${column}"]:has-text("0.5")`);
  }
  await go_to(page, { step: 7, cell: "" });
  await page.waitForSelector('td[data-id="output:0.2"]');
  assert.deepEqual(as_shown(await numbers_of(page, "output:0".slice(0, 6))), ["2", "7", "1.5"]);
  await close();
});

test("a key that is hidden, a score, a scale, the look-ahead mask, heads", async () => {
  const { page, close } = await open_example({ hash: "#step=8" });
  const output = async (...options) => {
    const expected = shown(tensor_of(native("explain", ...options), "output"));
    await until(
      page,
      (wanted) =>
        JSON.stringify(
          [...document.querySelectorAll('td[data-id^="output:"]')].map((cell) => String(Number(cell.textContent))),
        ) === wanted,
      JSON.stringify(expected),
    );
  };
  await page.getByText("Mask", { exact: true }).click();
  await page.getByRole("button", { name: "are is seen by all" }).click();
  await output("--mask", "[[1,0,1],[1,0,1],[1,0,1]]");
  await page.getByRole("button", { name: "You sees You" }).click();
  await output("--mask", "[[0,0,1],[1,0,1],[1,0,1]]");
  await page.getByRole("button", { name: "Reset" }).click();
  await page.locator(".live label", { hasText: "Score" }).locator("select").selectOption("scaled-dot");
  await output("--score", "scaled-dot");
  await fill(page, "Scale", "0.25");
  await output("--score", "scaled-dot", "--scale", "0.25");
  await page.getByLabel("Look-ahead mask").check();
  await output("--score", "scaled-dot", "--scale", "0.25", "--causal", "top-left");
  await page.getByRole("button", { name: "Reset" }).click();
  await page.getByLabel("Heads").selectOption("3");
  const weights = ["w_query", "w_key", "w_value"].flatMap((name) => [
    `--${name.replace("_", "-")}`,
    JSON.stringify(tensor_of(native("explain"), name)),
  ]);
  const inputs = ["--input", JSON.stringify(tensor_of(native("explain"), "inputs"))];
  await output("--heads", "3", ...inputs, ...weights);
  await page.getByRole("button", { name: "Without head 2" }).click();
  const w_out = tensor_of(native("explain", "--heads", "3", ...inputs, ...weights), "w_out");
  w_out[1] = w_out[1].map(() => 0);
  await output("--heads", "3", ...inputs, ...weights, "--w-out", JSON.stringify(w_out));
  await close();
});

test("what is no number, and what the engine refuses, keeps the last result and says why", async () => {
  const { page, close } = await open_example({ hash: "#step=8&cell=output:0.0" });
  await fill(page, "Scale", "much");
  assert.equal(await page.locator(".live [role=alert]").textContent(), '"much" is not a number: the last result stays.');
  const files = [
    ["w_query.csv", "1,2\n3\n"],
    ["w_query.csv", "1,2\n3,4\n"],
    ["what.csv", "1\n"],
  ].map(([name, text], i) => {
    const path = join(folder, String(i));
    writeFileSync(path, text);
    return { name, mimeType: "text/csv", buffer: readFileSync(path) };
  });
  for (const [file, words] of [
    [files[0], /line 2 has 1 field,/],
    [files[1], /w_query must have 4 rows/],
    [files[2], /"what.csv" is no array of this page/],
  ]) {
    await page.locator(".live input[type=file]").setInputFiles(file);
    await until(
      page,
      (asked) => new RegExp(asked).test(document.querySelector(".live [role=alert]")?.textContent ?? ""),
      words.source,
    );
  }
  assert.deepEqual(as_shown(await numbers_of(page, "output")), shown(tensor_of(native("explain"), "output")));
  await close();
});

test("arrays from files", async () => {
  const { page, close } = await open_example({ hash: "#step=8" });
  const inputs = "1,2,3,4\n0.5,-1,2,0\n3,1,0,0\n-1,-1,-1,2\n";
  const path = join(folder, "inputs.csv");
  writeFileSync(path, inputs);
  await page
    .locator(".live input[type=file]")
    .setInputFiles({ name: "input.csv", mimeType: "text/csv", buffer: Buffer.from(inputs) });
  await page.waitForSelector('td[data-id="output:3.2"]');
  const given = ["w_query", "w_key", "w_value"].flatMap((name) => [
    `--${name.replace("_", "-")}`,
    JSON.stringify(tensor_of(native("explain"), name)),
  ]);
  const expected = native("explain", "--input", path, ...given, "--score", "dot");
  assert.deepEqual(as_shown(await numbers_of(page, "output")), shown(tensor_of(expected, "output")));
  await close();
});

test("a mask from a file stays; -0 is given as -0.0, which the program reads so", async () => {
  const { page, close } = await open_example({ hash: "#step=8" });
  const drop = (name, text) =>
    page.locator(".live input[type=file]").setInputFiles({ name, mimeType: "text/csv", buffer: Buffer.from(text) });
  await drop("mask.csv", "1,0,1\n1,1,1\n1,1,1\n");
  const said = "The mask is that of your file: change it there, and drop it again.";
  const command = page.locator("footer code").first();
  await until(page, () => document.querySelector("footer code").textContent.includes("--mask mask.csv"));
  const kept = await command.textContent();
  await page.getByText("Mask", { exact: true }).click();
  await page.getByRole("button", { name: "You sees You" }).click();
  assert.equal(await page.locator(".live [role=alert]").textContent(), said);
  assert.equal(await command.textContent(), kept);
  await close();
  const other = await open_example({ hash: "#step=2&cell=w_query:0.0" });
  await fill(other.page, "Number: w_query 1, 1", "-0");
  await until(other.page, () => document.querySelector("footer code").textContent.includes("--w-query '[[-0.0,0,1],"));
  await other.close();
});

test("by keyboard alone: a number is chosen, changed, and the result is there", async () => {
  const { page, close } = await open_example({ hash: "#step=1" });
  await page.locator('td[data-id="inputs:0.0"]').focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Control+A");
  await page.keyboard.type("2");
  await page.keyboard.press("Enter");
  await page.waitForSelector('td[data-id="inputs:0.1"]:has-text("2")');
  assert.match(await page.locator("footer code").textContent(), /--input '\[\[1,2,1,0\]/);
  await close();
});

test("a text is translated and explained, a head's numbers are shown", async () => {
  const { page, close } = await open_model({ hash: "#of=1" });
  const text = "The cat drinks milk";
  await page.getByLabel("English to translate").fill(text);
  await page.getByRole("button", { name: "Translate" }).click();
  await settled(page, "leche");
  const expected = native("explain", "--model", model, "--text", text);
  const written = await page.evaluate(() => [...document.querySelectorAll("button.token bdi")].map((t) => t.textContent));
  assert.deepEqual(written, expected.sequences.find(({ name }) => name === "target").tokens);
  await go_to(page, { of: 1, view: "heads", attention: "encoder", head: "1.2" });
  await page.getByRole("button", { name: "Its numbers, step by step" }).click();
  await page.waitForSelector(".panel, [role=tablist]");
  assert.match(await page.locator("footer code").textContent(), /--attention encoder --layer 1 --head 2/);
  await close();
});

// What is typed is gone on from: on a page with such a model, and where the reader opens its folder.
test("a language model writes behind a text", async () => {
  const verses = `${root}models/verses`;
  const text = "Moses said to the people";
  const write = async (page) => {
    await page.getByLabel("Text to go on from").fill(text);
    await page.getByRole("button", { name: "Write", exact: true }).click();
    await until(page, (asked) => document.querySelector("main .about")?.textContent.includes(asked), text);
    const expected = native("explain", "--model", verses, "--text", text, "--write", "24");
    const shown_tokens = await page.evaluate(() => [...document.querySelectorAll("button.token bdi")].map((t) => t.textContent));
    const { tokens } = expected.sequences.find(({ name }) => name === "target");
    assert.deepEqual(shown_tokens.map((one) => one.trim()), tokens.map((one) => one.trim()));
    assert.match(await page.locator("footer code").first().textContent(), /--text 'Moses said to the people' --write 24/);
  };
  const { page, close } = await open_file(page_of("verses", ["--model", verses]), { hash: "#of=1" });
  await write(page);
  await close();
  const other = await open_example();
  await drop_model(other.page, verses);
  await other.page.getByLabel("Text to go on from").waitFor();
  await write(other.page);
  await other.close();
});

test("hostile text that is typed in is explained, shown, and nothing of it runs", async () => {
  const { page, close } = await open_model({ hash: "#of=1" });
  const text = '<img src=x onerror="alert(1)"></script>';
  await page.getByLabel("English to translate").fill(text);
  await page.getByRole("button", { name: "Translate" }).click();
  await until(page, (asked) => document.querySelector("main .about")?.textContent === asked, text);
  assert.equal(await page.locator("#page img[src=x], #page script").count(), 0);
  const words = await page.locator(".sentence .word").allTextContents();
  assert.equal(words.join(" ").replaceAll(" ", ""), text.replaceAll(" ", ""));
  await close();
});

test("without WebAssembly the recorded numbers stay usable", async () => {
  const { page, close } = await open_example({ without: "WebAssembly", hash: "#step=8&cell=output:0.1" });
  assert.equal(await page.locator(".panel .value").textContent(), "6.68311");
  assert.equal(await page.locator(".live").count(), 0);
  assert.equal(await page.getByRole("link", { name: "Train" }).count(), 0);
  await page.locator('td[data-id="output:0.2"]').click();
  assert.equal(await page.locator(".panel .value").textContent(), "1.59507");
  await close();
});

// Files of a model's folder, dropped on the page.
const kModelFiles = ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json"];
const drop_model = (page, of_model, names = kModelFiles) =>
  page.evaluate(
    (given) => {
      const data = new DataTransfer();
      for (const [name, base64] of given) {
        data.items.add(new File([Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))], name));
      }
      dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
    },
    names.map((name) => [name, readFileSync(`${of_model}/${name}`).toString("base64")]),
  );

test("a model from a folder; a broken one is refused and the old one stays", async () => {
  const { page, close } = await open_example();
  await drop_model(page, model);
  await settled(page, "nada");
  await drop_model(page, model, ["config.json", "tokenizer.json"]);
  await page.waitForSelector(".live [role=alert]");
  assert.match(await page.locator(".live [role=alert]").textContent(), /model.safetensors/);
  await drop_model(page, model, ["config.json", "config.json"]);
  await page.locator(".live [role=alert]", { hasText: "2 models at once, model and model: drop the folder of one" }).waitFor();
  await page.getByLabel("English to translate").fill("Thank you");
  await page.getByRole("button", { name: "Translate" }).click();
  await settled(page, "Gracias");
  await close();
});

test("a Transformer learns pairs; a bad pair is named", async () => {
  const { page, close } = await open_example({ hash: "#view=training" });
  await page.getByLabel("Pairs: text, tab, translation").fill("no translation");
  await page.getByLabel("Pairs: text, tab, translation").blur();
  await page.getByRole("button", { name: "Learn" }).click();
  await page.waitForSelector(".live [role=alert]");
  assert.match(await page.locator(".live [role=alert]").textContent(), /pairs.tsv/);
  await page.getByLabel("Pairs: text, tab, translation").fill("You are welcome\tDe nada\nThank you\tGracias");
  await page.getByLabel("Pairs: text, tab, translation").blur();
  await page.getByRole("button", { name: "Learn" }).click();
  await until(page, () => document.querySelector("[role=status] strong")?.textContent === "De nada");
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("button", { name: "Go on" }).waitFor();
  for (const [kind, pattern] of [["SVG", /^<svg /], ["PNG", /PNG/], ["CSV", /loss/]]) {
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: kind, exact: true }).click()]);
    assert.match(readFileSync(await download.path(), "latin1"), pattern);
  }
  await close();
});

// What the reader changed is in the address: sent or loaded anew it gives the same numbers.
test("a link keeps the sentence, a number, a mask, a scale and heads", async () => {
  const { page, close } = await open_example({ hash: "#step=2&cell=w_query:0.0" });
  await page.getByLabel("Your sentence").fill("Dogs chase cats");
  await page.getByLabel("Your sentence").press("Enter");
  await settled(page, "Scores for Dogs");
  await fill(page, "Number: w_query 1, 1", "3.5");
  await until(page, () => document.querySelector("footer code").textContent.includes("[[3.5,0,1]"));
  await page.getByLabel("Look-ahead mask").check();
  await fill(page, "Scale", "0.25");
  await until(page, () => document.querySelector("footer code").textContent.includes("--scale 0.25"));
  await go_to(page, { step: 8, cell: "" });
  await page.locator("#step-8").waitFor();
  const [numbers, hash] = [await numbers_of(page, "output"), await hash_of(page)];
  const command = await page.locator("footer code").first().textContent();
  assert.match(command, /--causal top-left/);
  await close();
  const sent = await open_example({ hash });
  await until(sent.page, (asked) => document.querySelector("footer code").textContent === asked, command);
  assert.deepEqual(await numbers_of(sent.page, "output"), numbers);
  assert.equal(await sent.page.getByLabel("Your sentence").inputValue(), "Dogs chase cats");
  await sent.page.getByRole("button", { name: "Reset" }).click();
  assert.notDeepEqual(await numbers_of(sent.page, "output"), numbers);
  assert.match(await hash_of(sent.page), /said=Dogs%20chase%20cats$/);
  await sent.close();
  const text = await open_model({ hash: `#of=1&view=heads&said=Thank%20you&out=${encodeURIComponent('{"heads":[{"attention":"encoder","layer":0,"head":1}],"keys":[]}')}` });
  await until(text.page, () => /--text 'Thank you' --without-head encoder.0.1/.test(document.querySelector("footer code").textContent));
  await text.close();
});

test("a broken link is said to be, and the numbers are those of the page", async () => {
  for (const made of ["{", "[1]", '{"give":{"w_query":1}}', '{"give":{"nothing":[[1]]}}', '{"score":"none"}', '{"window":-1}', "file-7"]) {
    const { page, close } = await open_example({ hash: `#step=8&made=${encodeURIComponent(made)}` });
    await page.locator(".live [role=alert]").waitFor();
    assert.match(await page.locator(".live [role=alert]").innerText(), /link|w.query/, made);
    assert.deepEqual(as_shown(await numbers_of(page, "output")), shown(tensor_of(native("explain"), "output")));
    await close();
  }
});

test("words have the same vectors wherever they stand; the documents' example is one of the examples", async () => {
  const { page, close } = await open_example({ hash: "#step=1" });
  const rows = () => page.locator("[aria-label^='inputs'] th").allInnerTexts();
  assert.deepEqual(await rows(), ["You", "are", "welcome"]);
  assert.deepEqual(await numbers_of(page, "inputs"), "1 0 1 0 0 2 0 2 1 1 1 1".split(" "));
  await page.getByLabel("Your sentence").fill("welcome are you welcome");
  await page.getByRole("button", { name: "Use it" }).click();
  await until(page, () => document.querySelectorAll("[aria-label^='inputs'] th").length === 4);
  assert.deepEqual(await numbers_of(page, "inputs"), "1 1 1 1 0 2 0 2 1 0 1 0 1 1 1 1".split(" "));
  await page.getByRole("button", { name: "the documents' example" }).click();
  await until(page, () => document.querySelector("[aria-label^='inputs'] th").textContent === "input 1");
  assert.deepEqual(await numbers_of(page, "inputs"), "1 0 1 0 0 2 0 2 1 1 1 1".split(" "));
  await close();
});

test("the page begins with three ways to go on", async () => {
  const { page, close } = await open_model();
  const tabs = () => page.getByRole("navigation", { name: "Views" }).getByRole("link").allInnerTexts();
  assert.deepEqual(await tabs(), ["Start", "Steps", "Translate", "Train", "Lesson"]);
  for (const [way, wanted] of [["See attention step by step", "#step-1"], ["Translate and see why", ".candidates"], ["Train one", ".pairs"]]) {
    await page.getByRole("link", { name: "Start" }).click();
    await page.getByRole("link", { name: way }).click();
    await page.locator(wanted).waitFor();
  }
  await close();
});

test("axe-core finds nothing where things can be changed, and 360 pixels are wide enough", async () => {
  for (const [opened, hash] of [
    [open_example, "#step=4"],
    [open_model, ""],
    [open_example, "#view=training"],
    [open_model, "#of=1"],
    [open_model, "#of=1&view=heads"],
  ]) {
    const { page, close } = await opened({ hash });
    await page.evaluate(() => document.querySelectorAll(".live details").forEach((one) => (one.open = true)));
    assert.deepEqual(await faults_of(page), [], hash);
    await page.setViewportSize({ width: 360, height: 800 });
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360, hash);
    await close();
  }
});
