// `crosscheck gate` through its real binary and real processes; the interpreters' numbers are made, so that the truth is
// known. That real PyTorch answers as these do is gate-torch.test.mjs's.
import Ajv2020 from 'ajv/dist/2020.js';
import assert from 'node:assert/strict';
import {execFileSync, spawn} from 'node:child_process';
import {chmodSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {test} from 'node:test';
import {parse} from 'yaml';
import {crosscheck, eventually, isGone, root, run, temporaryFolder, write} from './harness.mjs';

const GATES = '[correctness, latency, throughput, peak_memory, determinism, compile_export, rollback]';
// Five launches instead of 37 and more.
const UNTIMED = '[correctness, determinism, compile_export, rollback]';

// A folder with two interpreters and a manifest; `behaviours` say what each side answers.
function matrix(t, {baseline = {}, candidate = {}, more = '', workload = '', gates = GATES} = {}) {
  const folder = temporaryFolder(t);
  for (const [side, behaviour] of Object.entries({baseline, candidate})) {
    mkdirSync(join(folder, side));
    const script = '#!/usr/bin/env -S python3 -I -S\n' + readFileSync(join(root, 'tests/e2e/gate_interpreter.py'), 'utf8');
    chmodSync(write(join(folder, side), 'python', script, 0o755), 0o755);
    write(join(folder, side), 'behaviour.json', JSON.stringify(behaviour));
  }
  write(
    folder,
    'gate.yaml',
    `format: 1
name: upgrade
baseline: {label: current, python: ./baseline/python}
candidate: {label: next, python: ./candidate/python}
backends: [cpu]
classes:
  nightly: {latency: 5 %, latency_p95: 5 %, throughput: 5 %, peak_memory: 10 %}
workloads:
  - name: mlp
    workload: fallback.mlp
    class: nightly
    gates: ${gates}
    frozen: {code: abc, data: def}
${workload}caveats: [numbers are made]
${more}`,
  );
  const gate = (...args) => run(['gate', ...args], {cwd: folder});
  return {
    folder,
    gate,
    report: () => JSON.parse(gate('report', '--json').out),
    launches: (side) => {
      const path = join(folder, side, 'launches');
      return existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n').length : 0;
    },
  };
}

const statuses = (report) =>
  Object.fromEntries(report.cells[0].gates.map(({gate, status}) => [gate, status]));

test('a candidate that does the same is adopted, and every number leads to a launch', (t) => {
  const {folder, gate, report, launches} = matrix(t, {baseline: {noise: 0.005}, candidate: {noise: 0.005}});
  const checked = gate('check');
  assert.equal(checked.code, 0, checked.err);
  assert.match(gate('run', '--dry-run').out, /37 to 165 launches, about .* if a launch takes .*: none was made yet/);
  assert.equal(launches('baseline'), 0, 'a dry run launches nothing');
  assert.ok(!existsSync(join(folder, '.crosscheck')), 'nor does it freeze anything');
  const done = gate('run');
  assert.equal(done.code, 0, done.out + done.err);
  assert.match(done.err, /1\/1 mlp\/cpu\/inference: correctness PASS, latency PASS/);
  assert.match(gate('run', '--dry-run').out, /1 cell: 0 to 0 launches, about 0/);
  assert.match(done.out, /adopt +mlp on cpu: every required gate passed/);
  const found = report();
  assert.equal(found.decision, 'adopt');
  for (const {status, launches: files} of found.cells[0].gates) {
    assert.equal(status, 'PASS');
    assert.ok(files.length > 0);
    for (const file of files) assert.ok(existsSync(join(folder, '.crosscheck/gate/upgrade', file)), file);
  }
  const before = [launches('baseline'), launches('candidate')];
  assert.equal(gate('run').code, 0);
  assert.deepEqual([launches('baseline'), launches('candidate')], before, 'a finished matrix launches nothing');
  assert.match(gate('explain', 'mlp').out, /candidate against baseline: ×[01]\.\d+ .* pairs/);
  assert.match(gate('report', '--format', 'markdown').out, /\| mlp \| cpu \| \*\*adopt\*\* \|/);
});

test('what a candidate does worse fails the gate that it concerns, and no other', async (t) => {
  const exact = (answer) => ({answer});
  for (const [gate, candidate, reason] of [
    ['correctness', exact({output: {rmse: 0.01}}), /RMSE 0.01/],
    ['correctness', exact({output: {nan: 4}}), /4 NaN/],
    ['determinism', exact({determinism: {backward_mismatches: 1}}), /1 mismatches in 5 runs/],
    ['compile_export', exact({counters: {graph_breaks: 1}}), /1 graph breaks, the baseline 0/],
    ['compile_export', exact({export: {export: {ok: false, reason: 'no symbol'}}}), /export fails: no symbol/],
    ['compile_export', exact({fallback: {silent: true}}), /silently/],
    ['rollback', exact({checkpoint: {ok: false, reason: 'bad magic'}}), /bad magic/],
    ['peak_memory', {timing: {peak_memory_bytes: 150_000_000}}, /\+50\.00 %/],
  ]) {
    await t.test(`${gate}: ${reason}`, (t) => {
      const {gate: run, report} = matrix(t, {candidate, gates: candidate.timing ? GATES : UNTIMED});
      const done = run('run');
      assert.equal(done.code, 1, done.out + done.err);
      const found = report();
      for (const result of found.cells[0].gates) {
        assert.equal(result.status, result.gate === gate ? 'FAIL' : 'PASS', `${result.gate}: ${result.reason}`);
      }
      assert.match(found.cells[0].gates.find((result) => result.gate === gate).reason, reason);
      assert.equal(found.decision, 'defer');
    });
  }
});

test('a slowdown beyond the margin fails twice, one within it passes', (t) => {
  const slow = matrix(t, {baseline: {noise: 0.005}, candidate: {time: 1.1, noise: 0.005}});
  assert.equal(slow.gate('run').code, 1);
  assert.equal(statuses(slow.report()).latency, 'FAIL');
  assert.match(slow.gate('explain', 'mlp').out, /p50 second session: ×1\.(09|10)/);
  const near = matrix(t, {baseline: {noise: 0.005}, candidate: {time: 1.02, noise: 0.005}});
  assert.equal(near.gate('run').code, 0);
});

test('a machine that disagrees with itself is unfit, not slow', (t) => {
  const {gate, report} = matrix(t, {baseline: {noise: 0.3}, candidate: {noise: 0.3}});
  assert.equal(gate('run').code, 1);
  assert.equal(statuses(report()).latency, 'UNFIT');
  assert.equal(report().decision, 'defer');
});

test('a failure is isolated by a tested switch, and rolled back where the candidate is in use', (t) => {
  const candidate = {answer: {counters: {graph_breaks: 2}}};
  const isolated = matrix(t, {
    candidate,
    gates: UNTIMED,
    workload: '    isolation_switch: TORCHDYNAMO_DISABLE=1\n    isolation_tested: nightly of 1 December\n',
  });
  assert.equal(isolated.gate('run').code, 1);
  assert.equal(isolated.report().decision, 'isolate');
  const used = matrix(t, {candidate, gates: UNTIMED, workload: '    in_use: true\n', more: 'rollback: ["true"]\n'});
  assert.equal(used.gate('rollback-rehearsal').code, 0);
  assert.equal(used.gate('run').code, 1);
  assert.equal(used.report().decision, 'rollback');
  assert.match(used.report().cells[0].gates.find(({gate}) => gate === 'rollback').reason, /rehearsed/);
});

test('a rehearsal that fails fails the rollback', (t) => {
  const {gate, report} = matrix(t, {gates: UNTIMED, more: 'rollback: ["exit 3"]\n'});
  const rehearsed = gate('rollback-rehearsal');
  assert.equal(rehearsed.code, 1);
  assert.match(rehearsed.out, /failed +exit 3/);
  assert.equal(gate('run').code, 1);
  assert.equal(statuses(report()).rollback, 'FAIL');
});

test('a side that crashes, says nothing or prints garbage is told by name', (t) => {
  for (const [act, reason] of [
    ['crash', /crash: signal 11 \(SIGSEGV\) before there was a result/],
    ['nothing', /crash: exit 0 before there was a result/],
    ['garbage', /no_result: the launch's result:1:2/],
  ]) {
    const candidate = matrix(t, {candidate: {act, when: 'exact'}});
    assert.equal(candidate.gate('run').code, 1);
    const [first] = candidate.report().cells[0].gates;
    assert.equal(first.status, 'FAIL');
    assert.match(first.reason, reason);
    const baseline = matrix(t, {baseline: {act, when: 'timing'}});
    assert.equal(baseline.gate('run').code, 1);
    assert.equal(statuses(baseline.report()).latency, 'UNFIT');
  }
});

test('what a launch leaves running ends with it', async (t) => {
  const {folder, gate} = matrix(t, {candidate: {act: 'ranks', when: 'exact'}});
  assert.equal(gate('run').code, 1);
  const rank = Number(readFileSync(join(folder, 'candidate/rank'), 'utf8'));
  await eventually('the rank ends', () => isGone(rank));
});

test('killed at any moment, it goes on without repeating a finished launch', async (t) => {
  const {folder, gate, launches} = matrix(t);
  const records = () => {
    const path = join(folder, '.crosscheck/gate/upgrade/launches');
    return existsSync(path) ? readdirSync(path).filter((name) => name.endsWith('.json')).length : 0;
  };
  let repeated = 0;
  for (const stop of [1, 6, 20]) {
    const child = spawn(crosscheck, ['gate', 'run'], {cwd: folder, stdio: 'ignore'});
    const ended = new Promise((wake) => child.on('exit', wake));
    await eventually('launches', () => records() >= stop);
    child.kill('SIGKILL');
    await ended;
    ++repeated;
  }
  const done = gate('run');
  assert.equal(done.code, 0, done.out + done.err);
  assert.equal(records(), 37);
  const launched = launches('baseline') + launches('candidate');
  assert.ok(launched >= 37 && launched <= 37 + repeated, `${launched} launches for 37 records`);
});

test('Ctrl-C ends the launch in progress, whatever it ignores', async (t) => {
  const {folder, gate} = matrix(t, {gates: UNTIMED, candidate: {act: 'hang', when: 'exact'}});
  const child = spawn(crosscheck, ['gate', 'run'], {cwd: folder, stdio: ['ignore', 'ignore', 'pipe']});
  let said = '';
  child.stderr.on('data', (text) => (said += text));
  const ended = new Promise((wake) => child.on('exit', wake));
  const hanging = join(folder, 'candidate/hanging');
  await eventually('the launch hangs', () => existsSync(hanging));
  child.kill('SIGINT');
  assert.equal(await ended, 4);
  assert.match(said, /interrupted/);
  await eventually('the launch ends', () => isGone(Number(readFileSync(hanging, 'utf8'))));
  write(join(folder, 'candidate'), 'behaviour.json', '{}');
  assert.equal(gate('run').code, 0);
});

test('what decides is fixed before the first launch', (t) => {
  const {folder, gate} = matrix(t);
  assert.equal(gate('freeze').code, 0);
  const path = join(folder, 'gate.yaml');
  const text = readFileSync(path, 'utf8');
  writeFileSync(path, text.replace('latency: 5 %', 'latency: 50 %'));
  const changed = gate('run');
  assert.equal(changed.code, 3, changed.err);
  assert.match(changed.err, /classes\.nightly\.latency is 0\.5, was 0\.05/);
  assert.equal(gate('run', '--output', 'another', '--dry-run').code, 0);
  // The frozen file itself cannot be bent either.
  writeFileSync(path, text);
  const frozen = join(folder, '.crosscheck/gate/upgrade/frozen.json');
  writeFileSync(frozen, readFileSync(frozen, 'utf8').replace('"mlp"', '"mlq"'));
  const bent = gate('run');
  assert.equal(bent.code, 3);
  assert.match(bent.err, /frozen\.json was changed/);
});

test('two gates in one folder: the second is told', async (t) => {
  const {folder, gate} = matrix(t, {gates: UNTIMED, candidate: {act: 'hang', when: 'exact'}});
  const child = spawn(crosscheck, ['gate', 'run'], {cwd: folder, stdio: 'ignore'});
  const ended = new Promise((wake) => child.on('exit', wake));
  await eventually('the first hangs', () => existsSync(join(folder, 'candidate/hanging')));
  const second = gate('run');
  child.kill('SIGTERM');
  await ended;
  assert.equal(second.code, 4, second.err);
  assert.match(second.err, /another gate works in this folder/);
});

test('an interpreter that is missing or has no torch is named with its remedy', (t) => {
  const {folder, gate} = matrix(t);
  rmSync(join(folder, 'candidate/python'));
  const missing = gate('run');
  assert.equal(missing.code, 4);
  assert.match(missing.err, /next: .*candidate\/python/);
  write(join(folder, 'candidate'), 'python', '#!/bin/sh\necho "No module named torch" >&2; exit 1\n', 0o755);
  const bare = gate('run');
  assert.equal(bare.code, 4);
  assert.match(bare.err, /cannot import torch: No module named torch[^]*pip install torch/);
});

test('a manifest for what there is, and one from a matrix in JSON', (t) => {
  const {folder, gate} = matrix(t);
  const made = gate('init', '--manifest', 'made.yaml', '--baseline', 'a/python', '--candidate', 'b/python');
  assert.equal(made.code, 0, made.err);
  assert.equal(gate('check', '--manifest', 'made.yaml').code, 0);
  assert.equal(gate('init', '--manifest', 'made.yaml', '--baseline', 'a', '--candidate', 'b').code, 3);
  const asked = {
    matrix: 'cross-platform',
    versions: ['current_baseline', 'pytorch_2_13'],
    backends: ['mps', 'cuda', 'rocm', 'cpu', 'distributed'],
    gates: ['correctness', 'latency', 'throughput', 'peak_memory', 'determinism', 'compile_export', 'rollback'],
    decisions: ['adopt', 'isolate', 'defer', 'rollback'],
  };
  const init = (name, matrix) => {
    write(folder, `${name}.json`, JSON.stringify(matrix));
    return gate('init', '--manifest', `${name}.yaml`, '--baseline', 'a/python', '--candidate', 'b/python', '--matrix', `${name}.json`);
  };
  assert.equal(init('whole', asked).code, 0);
  const checked = gate('check', '--manifest', 'whole.yaml', '--json');
  assert.equal(checked.code, 0, checked.err);
  const unknown = init('odd', {...asked, gates: ['corectness']});
  assert.equal(unknown.code, 3);
  assert.match(unknown.err, /odd\.json: 'corectness' is none of the gates/);
});

test('a launch is made again from its record, and told apart when it answers otherwise', (t) => {
  const {folder, gate} = matrix(t, {gates: UNTIMED});
  assert.equal(gate('run').code, 0);
  const same = gate('reproduce', 'mlp/cpu/inference');
  assert.equal(same.code, 0, same.out + same.err);
  assert.match(same.out, /candidate \(launches\/000001\.json\)\nprintf %s .*crosscheck_probe\.workload/);
  assert.match(same.out, /output\.digest +aa, now aa/);
  write(join(folder, 'candidate'), 'behaviour.json', JSON.stringify({answer: {output: {digest: 'bb'}}}));
  const other = gate('reproduce', 'mlp/cpu/inference');
  assert.equal(other.code, 1);
  assert.match(other.out, /output\.digest +aa, now bb/);
  assert.equal(gate('reproduce', 'mlp', '--launch', '1/0/0').code, 3);
});

test('a bundle says on another machine what it said here, and no byte of it can be changed', (t) => {
  const {folder, gate} = matrix(t, {gates: UNTIMED});
  assert.equal(gate('run').code, 0);
  assert.match(gate('bundle', 'upgrade.tar').out, /upgrade\.tar: adopt, SHA-256 [0-9a-f]{64}/);
  const elsewhere = temporaryFolder(t);
  const bytes = readFileSync(join(folder, 'upgrade.tar'));
  writeFileSync(join(elsewhere, 'upgrade.tar'), bytes);
  const verified = run(['gate', 'verify', 'upgrade.tar'], {cwd: elsewhere});
  assert.equal(verified.code, 0, verified.err);
  assert.match(verified.out, /whole; its launches say adopt/);
  for (const at of [0, 130, 600, Math.floor(bytes.length / 2), bytes.length - 1]) {
    const changed = Buffer.from(bytes);
    changed[at] ^= 1;
    writeFileSync(join(elsewhere, 'upgrade.tar'), changed);
    assert.equal(run(['gate', 'verify', 'upgrade.tar'], {cwd: elsewhere}).code, 3, `byte ${at}`);
  }
});

test('a bundle keeps to itself what the rules name, and still says the same', (t) => {
  const {folder, gate} = matrix(t, {gates: UNTIMED, candidate: {answer: {note: 'ask dora.d@mail.example.org'}}});
  assert.equal(gate('run').code, 0);
  const bundle = (name, ...args) => {
    assert.equal(gate('bundle', name, ...args).code, 0);
    assert.equal(gate('verify', name).code, 0);
    return readFileSync(join(folder, name), 'utf8');
  };
  assert.match(bundle('off.tar', '--privacy', 'off'), /dora\.d@mail/);
  const standard = bundle('standard.tar');
  assert.doesNotMatch(standard, /dora\.d@mail/);
  assert.match(standard, /redacted-email-[0-9a-f]{8}/);
  assert.doesNotMatch(bundle('strict.tar', '--privacy', 'strict'), new RegExp(folder));
  const salt = readFileSync(join(folder, '.crosscheck/gate/upgrade/.salt'), 'utf8');
  assert.ok(!standard.includes(salt));
  const rules = JSON.parse(gate('privacy', '--json').out);
  assert.ok(rules.some(({name, from}) => name === 'email' && from === 'standard'));
});

test('the schema takes every manifest that the loader takes, and no unknown key', (t) => {
  const {folder, gate} = matrix(t, {
    workload: '    shape: {batch: 4}\n    time_limit: 90s\n    in_use: true\n    seed: 7\n',
    more: `waivers: [{cell: mlp/cpu/inference/latency, owner: a, reason: b, expires: 2999-01-01}]
claims: [{id: c, source: 'https://example.com', workload: mlp, gate: latency, gain: 10 %}]
`,
  });
  const printed = gate('schema');
  assert.equal(printed.code, 0, printed.err);
  const takes = new Ajv2020({allErrors: true, allowUnionTypes: true}).compile(JSON.parse(printed.out));
  assert.equal(gate('init', '--manifest', 'made.yaml', '--baseline', 'a/python', '--candidate', 'b/python').code, 0);
  for (const path of [
    join(folder, 'gate.yaml'),
    join(folder, 'made.yaml'),
    join(root, 'examples/upgrade/gate.yaml'),
    join(root, 'src/gate/fuzz/manifest_fuzz_corpus/upgrade.yaml'),
  ]) {
    assert.ok(takes(parse(readFileSync(path, 'utf8'))), `${path}: ${JSON.stringify(takes.errors)}`);
  }
  const manifest = parse(readFileSync(join(folder, 'gate.yaml'), 'utf8'));
  for (const change of [
    (m) => (m.caveat = []),
    (m) => (m.workloads[0].warmup = -1),
    (m) => (m.workloads[0].size = 'huge'),
    (m) => (m.workloads[0].command = ['x']),
    (m) => (m.classes.nightly.latency = 5),
    (m) => delete m.name,
  ]) {
    const changed = structuredClone(manifest);
    change(changed);
    assert.ok(!takes(changed), change.toString());
  }
});

test('the library of workloads is listed with what it needs', (t) => {
  const {gate} = matrix(t);
  const cases = JSON.parse(gate('workloads', '--python', 'python3', '--json').out);
  const mlp = cases.find(({name}) => name === 'fallback.mlp');
  assert.deepEqual([mlp.phases, mlp.lacks, Object.keys(mlp.sizes)], [['inference', 'training'], [], ['small', 'medium', 'large']]);
  const listed = gate('workloads', '--python', 'python3');
  assert.equal(listed.code, 0, listed.err);
  for (const {name} of cases) assert.ok(listed.out.includes(`${name} `), name);
  assert.equal(gate('workloads', '--python', 'false').code, 4);
});

test('cells measured apart are joined, and a cell measured twice is refused', (t) => {
  const {folder, gate} = matrix(t, {gates: UNTIMED, workload: '    phases: [inference, training]\n'});
  assert.equal(gate('run', '--cells', 'mlp/cpu/inference', '-o', 'one').code, 1, 'the other phase is not run');
  assert.equal(gate('run', '--cells', 'mlp/cpu/training', '-o', 'two').code, 1);
  for (const [order, output] of [
    [['one', 'two'], 'ab'],
    [['two', 'one'], 'ba'],
  ]) {
    const merged = gate('merge', ...order, '-o', output);
    assert.equal(merged.code, 0, merged.out + merged.err);
  }
  assert.equal(gate('merge', 'one', '-o', 'ab').code, 0, 'merging again changes nothing');
  assert.equal(gate('run', '--cells', 'mlp/cpu/inference', '-o', 'again').code, 1);
  // As the workflow to copy does: of a shard, its records alone.
  const workflow = parse(readFileSync(join(root, 'examples/upgrade/workflow.yml'), 'utf8'));
  const shell = (script, env) =>
    execFileSync('bash', ['-e', '-c', script], {
      cwd: folder,
      env: {...process.env, PATH: `${dirname(crosscheck)}:${process.env.PATH}`, ...env},
    });
  const step = (job, name) => workflow.jobs[job].steps.find((step) => step.name === name).run;
  for (const cells of ['mlp/cpu/inference', 'mlp/cpu/training']) {
    shell(step('measure', 'Measure'), {CELLS: cells});
    const place = join(folder, 'shards', cells.replaceAll('/', '-'));
    mkdirSync(place, {recursive: true});
    for (const pattern of workflow.jobs.measure.steps.at(-1).with.path.trim().split('\n')) {
      shell(`cd shard && cp --parents ${pattern.replace('shard/', '')} '${place}'`, {});
    }
    rmSync(join(folder, 'shard'), {recursive: true});
  }
  shell(step('decide', 'Decide'), {});
  shell(step('decide', 'Show and bundle'), {GITHUB_STEP_SUMMARY: join(folder, 'summary.md')});
  assert.match(readFileSync(join(folder, 'summary.md'), 'utf8'), /^# upgrade: adopt/);
  assert.match(readFileSync(join(folder, 'upgrade.html'), 'utf8'), /adopt: all 1 of workload and backend/);
  const twice = gate('merge', 'again', '-o', 'ab');
  assert.equal(twice.code, 3, twice.err);
  assert.match(twice.err, /was launched in again and in another folder/);
  assert.ok(existsSync(join(folder, 'ab/launches/000009.json')));
});

test('a busy machine is refused until its load is accepted', (t) => {
  const {gate} = matrix(t, {gates: UNTIMED, baseline: {load: [9.5, 9, 9]}});
  const refused = gate('run');
  assert.equal(refused.code, 4);
  assert.match(refused.err, /unfit to measure on: 9\.5 processes want its 2 processors/);
  assert.equal(gate('run', '--accept-load').code, 0);
});

test('what stands between the sides beside PyTorch is reported', (t) => {
  const {gate, report} = matrix(t, {gates: UNTIMED, candidate: {build: {blas: 'openblas', vector_isa: null}}});
  assert.equal(gate('run').code, 0);
  assert.deepEqual(report().confounders, ['build.blas: mkl against openblas', 'build.vector_isa: avx512 against null']);
});
