// The command that a view names makes it: run in a terminal it gives the explanation that the view shows.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { go_to, open_file } from "./browser.mjs";
import { program, root } from "./program.mjs";

const folder = mkdtempSync(join(tmpdir(), "qkv-command-"));
after(() => rmSync(folder, { recursive: true }));
const in_terminal = (words) =>
  spawnSync("bash", ["-c", `exec "$0" ${words}`, program], { cwd: folder, encoding: "utf8", maxBuffer: 1 << 30 });

writeFileSync(join(folder, "array.csv"), Array.from({ length: 70 }, (_, i) => `${i % 7},${i % 5},${i % 3},1`).join("\n"));
writeFileSync(join(folder, "scores.csv"), "2,4,4\n4,16,12\n4,12,10\n");
writeFileSync(join(folder, "run.json"), in_terminal("explain --text Danke --json --weights").stdout);
const kText = `"Don't cry"`; // quotes that a shell takes away
const kDecoder = `--model ${root}tests/golden/language/gpt2`;
const kReports = [
  ["explain --score scaled-dot --html r.html", ["", "step=5&query=1"], "steps"],
  [`explain --text '${kText.replaceAll("'", "'\\''")}' --html r.html`, ["view=translation&token=1", "view=model"], "heads"],
  [`explain --text '${kText.replaceAll("'", "'\\''")}' --html r.html`, ["view=heads&attention=encoder&head=1.2"], "head"],
  [`translate --explain --html r.html '${kText.replaceAll("'", "'\\''")}'`, ["view=heads&attention=encoder_decoder&head=0.1"], "head"],
  ["explain --text Thanks --attention encoder --layer 0 --head 1 --html r.html", ["", "token=0"], "head"],
  ["explain --text Thanks --json --weights --html r.html", ["view=heads&attention=decoder&head=1.1"], "head"],
  ["explain --text Thanks --json --weights --html r.html", ["view=translation", "view=model"], "heads"],
  ["explain --text Thanks --compare run.json --html r.html", ["view=heads&attention=encoder&head=0.3"], "head"],
  ["explain --text Thanks --compare run.json --html r.html", ["view=model", "view=translation"], "heads"],
  ["explain --text Thanks --without-head encoder.0.1 --html r.html", ["view=heads&attention=encoder&head=1.1"], "head"],
  ["explain --text Thanks --token 0 --html r.html", [""], "token"],
  [`generate ${kDecoder} --explain --max-new-tokens 3 'The cat' --html r.html`, ["view=translation"], "heads"],
  [`generate ${kDecoder} --explain --max-new-tokens 3 'The cat' --html r.html`, ["view=heads&head=1.1"], "head"],
  ["explain --substitute scores=scores.csv --mask '[[1,1,0]]' --html r.html", ["step=6"], "steps"],
  ["attend --query array.csv --key array.csv --value array.csv --html r.html --out out.npy", [""], null],
];

for (const [words, views, kind] of kReports) {
  test(`qkv ${words}: ${views.map((view) => view || "the first view").join(", ")}`, async () => {
    const made = in_terminal(words);
    assert.equal(made.status, 0, made.stderr);
    for (const view of views) {
      const { page, close } = await open_file(join(folder, "r.html"), { hash: `#${view}` });
      const command = await page.locator("footer code").first().textContent();
      assert.match(command, /^qkv /);
      assert.equal(in_terminal(command.replace(/^qkv /, "")).status, 0, command); // as it stands
      const plain = command.replace(/^qkv /, "").replace(/ --html \S+/, "").replace(/ --compare \S+/, "");
      const { status, stdout, stderr } = in_terminal(kind && !/ --json\b/.test(plain) ? `${plain} --json` : plain);
      assert.equal(status, 0, `${command}: ${stderr}`);
      if (kind) {
        const said = JSON.parse(stdout.split("\n")[0]);
        assert.equal(said.kind, kind);
        const at = new URLSearchParams(view);
        const [layer, head] = (at.get("head") ?? "").split(".").map(Number);
        if (at.has("head")) assert.deepEqual([said.layer, said.head], [layer, head]);
        if (kind === "head" && at.has("token")) assert.equal(said.token, Number(at.get("token")));
      }
      await close();
    }
  });
}

test("a picture: the command of a head of it", async () => {
  copyFileSync(`${root}data/example/seven.png`, join(folder, "digit.png"));
  const made = in_terminal(`explain --model ${root}models/digits --image digit.png --html r.html`);
  if (made.status !== 0) return assert.fail(made.stderr);
  const { page, close } = await open_file(join(folder, "r.html"), { hash: "#head=0.1" });
  const command = (await page.locator("footer code").first().textContent()).replace(/^qkv /, "").replace(/ --html \S+/, "");
  assert.match(command, /--layer 0 --head 1/);
  const { status, stderr } = in_terminal(`${command} --json`);
  assert.equal(status, 0, stderr);
  await close();
});

// What the page of `qkv web` computed itself: each view's command, as it stands, and with --json the explanation shown.
test("the commands of a page that computes", async () => {
  const model = `${root}models/en-es`;
  const made = in_terminal(`web --out live.html --model '${model}'`);
  assert.equal(made.status, 0, made.stderr);
  const { page, close } = await open_file(join(folder, "live.html"), { hash: "#of=1" });
  const command = page.locator("footer code").first();
  const shown = async (...words) => {
    for (let i = 0; i < 1200; ++i) {
      const text = await command.textContent();
      if (words.every((word) => text.includes(word))) return text.replace(/^qkv /, "");
      await new Promise((done) => setTimeout(done, 50));
    }
    return assert.fail(`no command with ${words}: ${await command.textContent()}`);
  };
  const check = async (kind, ...words) => {
    const text = await shown(...words);
    const plain = in_terminal(text);
    assert.equal(plain.status, 0, `${text}: ${plain.stderr}`);
    assert.equal(JSON.parse(in_terminal(`${text} --json`).stdout).kind, kind, text);
  };
  await page.getByLabel("English to translate").fill("You're not here");
  await page.getByRole("button", { name: "Translate" }).click();
  for (const view of ["translation", "heads", "model"]) {
    await go_to(page, { view, attention: "encoder", head: "1.2" });
    await check("heads", `--model ${model}`, "not here");
  }
  await go_to(page, { view: "heads" });
  await page.getByRole("button", { name: "Without this head" }).click();
  await check("heads", "--without-head encoder.1.2");
  await page.getByRole("button", { name: "Its numbers, step by step" }).click();
  await check("head", "--layer 1 --head 2");
  // A model that the reader opens is called by the name of its folder.
  cpSync(model, join(folder, "my model"), { recursive: true });
  await page.evaluate(() => void (location.hash = "#of=1&view=heads"));
  await page.locator("form.live input[type=file]").setInputFiles(join(folder, "my model"));
  await check("heads", "--model 'my model' --text 'You are welcome'");
  await close();
});
