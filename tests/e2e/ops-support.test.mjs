// `crosscheck ops support` against the reference device, of which it is known what it executes.
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {test} from 'node:test';
import {run, temporaryFolder, write} from './harness.mjs';

// What the device executes besides its factories, copies and views, and what follows for others.
const executed = ['aten::add.out', 'aten::mm.out', 'aten::relu', 'aten::exp.out', 'aten::fill_.Scalar'];
const expected = {
  'aten::add.out': ['native', undefined],
  'aten::add.Tensor': ['composite_explicit', undefined],
  'aten::add_.Tensor': ['composite_explicit', undefined],
  'aten::mm': ['composite_explicit', undefined],
  'aten::relu': ['native', undefined],
  'aten::view': ['native', undefined],
  'aten::exp': ['composite_explicit', undefined],
  'aten::ones_like': ['composite_explicit', undefined],
  'aten::linear': ['missing', 'aten::addmm.out'],
  'aten::matmul': ['missing', 'aten::dot'],
  'aten::sub.Tensor': ['missing', 'aten::sub.out'],
  'aten::square': ['missing', 'aten::pow.Tensor_Scalar_out'],
  'aten::erf': ['missing', 'aten::erf.out'],
  'aten::dot': ['missing', undefined],
  'aten::reshape': ['composite_implicit', undefined],
};

function support(folder, config, ...options) {
  const env = {REFDEV_CONFIG: write(folder, 'refdev.json', JSON.stringify(config))};
  const output = join(folder, 'support.jsonl');
  const {code, out, err} = run(
    ['ops', 'support', '--device', 'refdev', '-o', output, ...options],
    {env},
  );
  assert.equal(code, 0, err);
  const lines = readFileSync(output, 'utf8').trim().split('\n').map(line => JSON.parse(line));
  assert.equal(lines[0].device, 'refdev');
  assert.deepEqual(lines.at(-1), {end: lines.length - 2});
  return {out, err, operators: new Map(lines.slice(1, -1).map(line => [line.op, line]))};
}

test('every answer is right, and what runs is what was said', t => {
  const folder = temporaryFolder(t);
  const listed = write(
    folder,
    'ops.yaml',
    'backend: PrivateUse1\nsupported:\n  - add.out\n  - dot\n  - no_such_operator\n  - relu\n',
  );
  const {operators, out} = support(
    folder,
    {operators: executed},
    ...['--operators', Object.keys(expected).join(','), '--dtypes', 'float32,int64', '--list', listed],
  );
  for (const [op, [answer, because]] of Object.entries(expected)) {
    const line = operators.get(op);
    assert.deepEqual([line.answer, line.because], [answer, because], op);
    assert.equal(line.established[0], 'dispatcher');
    // A sample that needs nothing that is missing may run all the same; it is then said to.
    const outcomes = Object.values(line.dtypes ?? {}).map(({outcome}) => outcome);
    if (answer !== 'missing') assert.ok(!outcomes.includes('missing'), op);
    else if (outcomes.includes('runs')) assert.match(line.disagreements.join(), /samples run on the device/);
  }
  assert.equal(operators.get('aten::add.Tensor').dtypes.float32.outcome, 'runs');
  assert.equal(operators.get('aten::sub.Tensor').dtypes.int64.missing, 'aten::sub.out');
  assert.match(operators.get('aten::add.out').listed[0], /ops\.yaml:3$/);
  assert.match(out, /disagreement: aten::dot: [^\n]*ops\.yaml:4 lists it, and the dispatcher has no kernel/);
  assert.doesNotMatch(out, /disagreement: aten::relu/);
});

test('a sample that crashes or hangs costs itself', t => {
  const {operators, err} = support(
    temporaryFolder(t),
    {
      operators: ['aten::add.out', 'aten::exp.out', 'aten::mul.out'],
      faults: {'aten::exp.out': 'crash', 'aten::mul.out': 'hang'},
    },
    ...['--operators', 'aten::add.Tensor,aten::exp,aten::mul.Tensor', '--dtypes', 'float32'],
    ...['--limit', '20'],
  );
  const outcome = op => operators.get(op).dtypes.float32.outcome;
  assert.equal(outcome('aten::exp'), 'crashed');
  assert.equal(outcome('aten::mul.Tensor'), 'timed_out');
  assert.equal(outcome('aten::add.Tensor'), 'runs');
  assert.match(err, /exp, float32: its process died: signal 11/);
});

test('lists alone are read without torch; what is wrong in them is named', t => {
  const folder = temporaryFolder(t);
  const env = {CROSSCHECK_PYTHON: '/no/such/python'};
  const list = write(folder, 'list.txt', 'aten::add.Tensor  # one\nmm\n');
  const {code, out} = run(['ops', 'support', '--list', list, '--json'], {env});
  assert.equal(code, 0);
  const lines = out.trim().split('\n').map(line => JSON.parse(line));
  assert.deepEqual(
    lines.slice(1, -1).map(({op, answer, listed}) => [op, answer, listed.length]),
    [
      ['aten::add.Tensor', 'native', 1],
      ['aten::mm', 'native', 1],
    ],
  );
  const broken = write(folder, 'broken.yaml', 'supported:\n  - a b\n');
  const refused = run(['ops', 'support', '--list', broken]);
  assert.equal(refused.code, 3);
  assert.match(refused.err, /broken\.yaml:2:5: 'a b' is no operator/);
  assert.equal(run(['ops', 'support', '--device', 'cpu'], {env}).code, 4);
  assert.equal(run(['ops', 'support', '--operators', 'a b']).code, 2);
});
