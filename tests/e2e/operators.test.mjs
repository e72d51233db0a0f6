// `crosscheck trace` and `crosscheck ops`: which operators tests use, on real PyTorch.
import assert from 'node:assert/strict';
import {existsSync, readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {test} from 'node:test';
import {gunzipSync} from 'node:zlib';
import {python, run, temporaryFolder} from './harness.mjs';

const FORWARD = 'test_gradients.py::TestGradientsCPU::test_backward_addmm_cpu_float32';
const COMPILED = 'test_compile.py::TestCompileCPU::test_backward_program_softmax_cpu';

function ok(folder, args, {code = 0} = {}) {
  const done = run([...args, '--db', join(folder, 'c.db')], {cwd: folder});
  assert.equal(done.code, code, done.out + done.err);
  return done;
}

function trace(folder, output, args) {
  const selected = [FORWARD, COMPILED].flatMap((node) => ['--select', node]);
  return ok(folder, [
    ...['trace', '--files', 'test_gradients.py,test_compile.py', ...selected, '-j', '1'],
    ...['--python', python, '--output', output, ...args],
  ]);
}

const tests = (text) =>
  Object.fromEntries(
    text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
      .filter((line) => 'node' in line)
      .map((line) => [line.node, line]),
  );

test('a trace by either observer tells phases apart, and what is compiled by its graphs', (t) => {
  const folder = temporaryFolder(t);
  trace(folder, 'mode.jsonl', ['--observer', 'dispatch-mode']);
  const mode = tests(readFileSync(join(folder, 'mode.jsonl'), 'utf8'));
  trace(folder, 'own.jsonl.gz', ['--observer', 'record-function']);
  const own = tests(gunzipSync(readFileSync(join(folder, 'own.jsonl.gz'))).toString());
  for (const traced of [mode, own]) {
    assert.deepEqual(Object.keys(traced).sort(), [COMPILED, FORWARD]);
    const {operators, outcome} = traced[FORWARD];
    assert.equal(outcome, 'passed');
    assert.ok(operators.forward['aten::addmm'] >= 2, JSON.stringify(operators));
    assert.ok(operators.backward['aten::mm'] >= 1);
    assert.ok(operators.setup['aten::uniform_'] >= 1);
    assert.ok(operators.comparison['aten::eq.Tensor'] >= 1);
    assert.equal(operators.forward['aten::uniform_'], undefined);
    assert.equal(operators.forward['aten::isnan'], undefined);
    const compiled = traced[COMPILED];
    assert.equal(compiled.outcome, 'passed', 'as it ends without a mode');
    assert.deepEqual(
      compiled.graphs.map(({graph}) => graph),
      ['0/0 backward', '0/0 forward'],
    );
    assert.equal(compiled.graphs[1].operators['aten::_softmax'], 1);
    assert.equal(compiled.graphs[0].operators['aten::_softmax_backward_data'], 1);
  }
  // Composites, and what runs inside others, only the observer in C++ sees.
  assert.ok(own[FORWARD].operators.comparison['aten::isclose'] >= 1);
  assert.equal(mode[FORWARD].operators.comparison['aten::isclose'], undefined);

  ok(folder, ['ops', 'ingest', 'mode.jsonl', 'own.jsonl.gz']);
  const listed = ok(folder, ['ops', 'tests', 'addmm', '--phase', 'forward']);
  assert.equal(listed.out, `${FORWARD}\n`);
  assert.match(listed.err, /1 of 2 tests use aten::addmm/);
  const json = JSON.parse(ok(folder, ['ops', 'tests', 'aten::_softmax', '--phase', 'compiled', '--json']).out);
  assert.deepEqual(json.tests, [{node: COMPILED, outcome: 'passed'}]);
  assert.equal(ok(folder, ['ops', 'tests', 'addmm', '--dtype', 'int64']).out, '');
  assert.match(ok(folder, ['ops', 'of', 'softmax']).out, /compiled graph 0\/0 forward:\n.*aten::_softmax/);
  assert.match(ok(folder, ['ops', 'tests', 'addmn'], {code: 3}).err, /did you mean 'aten::addmm'/);
});

const header = {
  ...{format: 'crosscheck-trace', schema: 1, torch: '2.13.0', torch_git: 'abc', device: 'cpu'},
  ...{suite: 's1', observer: 'record-function', composites: [], aliases: {}},
};
function write(folder, name, changes, lines) {
  const text = [{...header, ...changes}, ...lines].map((line) => JSON.stringify(line)).join('\n');
  writeFileSync(join(folder, name), text + '\n');
}
const line = (method, forward) => ({
  ...{file: 'a.py', class: 'A', method, variant: {}, node: `a.py::A::${method}`, outcome: 'passed'},
  operators: {forward},
});

test('a trace of another build, cut off, or broken is refused or said', (t) => {
  const folder = temporaryFolder(t);
  write(folder, 'a.jsonl', {}, [line('x', {'aten::add': 1}), {end: 1}]);
  write(folder, 'b.jsonl', {torch: '2.14.1', device: 'refdev'}, [line('y', {}), {end: 1}]);
  write(folder, 'cut.jsonl', {}, [line('z', {'aten::add': 1})]);
  write(folder, 'broken.jsonl', {}, [{...line('z', {}), outcome: 'fine'}, {end: 1}]);
  assert.match(ok(folder, ['ops', 'tests', 'add'], {code: 3}).err, /no operator index.*\n.*ops ingest/);
  ok(folder, ['ops', 'ingest', 'a.jsonl']);
  const other = ok(folder, ['ops', 'ingest', 'b.jsonl'], {code: 3});
  assert.match(other.err, /torch is 2\.14\.1, not 2\.13\.0; the device is refdev, not cpu/);
  assert.match(ok(folder, ['ops', 'ingest', 'broken.jsonl'], {code: 3}).err, /broken\.jsonl:2: outcome/);
  assert.match(ok(folder, ['ops', 'ingest', 'missing.jsonl'], {code: 3}).err, /missing\.jsonl/);
  const cut = ok(folder, ['ops', 'ingest', 'cut.jsonl']);
  assert.match(cut.err, /cut\.jsonl is cut off behind line 2: 1 tests are whole/);
  assert.equal(ok(folder, ['ops', 'tests', 'add']).out, 'a.py::A::x\na.py::A::z\n');
  assert.ok(existsSync(join(folder, 'c.operators.db')));
});

test('what a backend lacks: what one operator would bring, and which to add first', (t) => {
  const folder = temporaryFolder(t);
  const delegates = {'aten::add.Tensor': 'aten::add.out'};
  write(folder, 'a.jsonl', {delegates, composites: ['aten::linear']}, [
    line('both', {'aten::add.Tensor': 1, 'aten::mm': 1, 'aten::linear': 1}),
    line('sum', {'aten::add.Tensor': 1, 'aten::relu': 1}),
    line('fine', {'aten::relu': 1}),
    {...line('dead', {}), outcome: 'crashed', operators: undefined},
    {end: 4},
  ]);
  ok(folder, ['ops', 'ingest', 'a.jsonl']);
  writeFileSync(join(folder, 'list.txt'), 'aten::relu\n');
  writeFileSync(
    join(folder, 'support.jsonl'),
    [
      {schema: 1},
      {op: 'aten::add.Tensor', answer: 'missing', because: 'aten::add.out'},
      {op: 'aten::relu', answer: 'native'},
      {op: 'aten::mm', answer: 'missing'},
    ]
      .map((answer) => JSON.stringify(answer))
      .join('\n'),
  );
  for (const support of ['list.txt', 'support.jsonl']) {
    const add = ok(folder, ['ops', 'enable', 'add', '--support', support, '--json']);
    assert.deepEqual(JSON.parse(add.out), {
      ...{missing: ['aten::add.out'], need: ['a.py::A::both', 'a.py::A::sum']},
      ...{alone: ['a.py::A::sum'], also_missing: [{operator: 'aten::mm', tests: 1}]},
      ...{tests: 4, tests_that_lack_something: 2, unknown: 1},
    });
    const next = JSON.parse(ok(folder, ['ops', 'next', '--support', support, '--json']).out);
    assert.deepEqual(next.steps, [
      {operators: ['aten::add.out'], frees: 1, in_all: 1},
      {operators: ['aten::mm'], frees: 1, in_all: 2},
    ]);
    assert.deepEqual(next.alone[0], {operator: 'aten::add.out', frees: 1, need: 2});
  }
  const told = ok(folder, ['ops', 'next', '--support', 'list.txt', '--limit', '1']);
  assert.match(told.out, /2 of 4 tests lack something[^]*1 +1 +aten::add\.out/);
  assert.match(told.err, /1 tests are left out: no operators are known/);
  assert.match(
    ok(folder, ['ops', 'enable', 'relu', '--support', 'list.txt']).out,
    /aten::relu is not missing/,
  );
  writeFileSync(join(folder, 'broken.jsonl'), '{"op":"aten::mm","answer":"perhaps"}\n');
  assert.match(
    ok(folder, ['ops', 'next', '--support', 'broken.jsonl'], {code: 3}).err,
    /broken\.jsonl:1: answer: expected one of native/,
  );
});

test('what is missing, as the failures of a run on the reference device name it', (t) => {
  const folder = temporaryFolder(t);
  const files = ['--files', 'test_gradients.py', '--select', 'addmm', '--python', python, '-j', '1'];
  ok(folder, ['trace', ...files, '--device', 'cpu', '-o', 'cpu.jsonl', '--observer', 'dispatch-mode']);
  ok(folder, ['ops', 'ingest', 'cpu.jsonl']);
  const config = join(folder, 'refdev.json');
  writeFileSync(config, JSON.stringify({operators: ['aten::mm.out']}));
  const done = run(['run', ...files, '--device', 'refdev', '--db', join(folder, 'c.db')], {
    cwd: folder,
    env: {REFDEV_CONFIG: config},
  });
  assert.equal(done.code, 1, done.out + done.err);
  const next = JSON.parse(ok(folder, ['ops', 'next', '--json']).out);
  const missing = next.alone.map(({operator}) => operator);
  assert.ok(missing.includes('aten::addmm.out'), JSON.stringify(next));
  const addmm = JSON.parse(ok(folder, ['ops', 'enable', 'addmm', '--json']).out);
  assert.deepEqual(addmm.missing, ['aten::addmm.out']);
  assert.ok(addmm.need.includes(FORWARD), JSON.stringify(addmm));
});
