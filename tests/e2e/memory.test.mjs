// The repository memory's commands, on a small tree: what they find, what they say, and their exit codes.
import assert from 'node:assert/strict';
import {spawnSync} from 'node:child_process';
import {chmodSync, copyFileSync, mkdirSync, readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {createServer} from 'node:http';
import {test} from 'node:test';
import {inventoryText, run, runAsync, temporaryFolder, write} from './harness.mjs';

const common = 'def check(x):\n    return x\n';
const ops = `import torch
from common import check

class TestOps(TestCase):
    @onlyCUDA
    def test_cuda_only(self):
        torch.add(1, 2)

    @ops(op_db)
    def test_logaddexp(self, device, dtype, op):
        """Numerical accuracy near zero."""
        check(torch.logaddexp(1, 2))

instantiate_device_type_tests(TestOps, globals())
`;

function makeTree(t) {
  const folder = temporaryFolder(t);
  const tree = join(folder, 'tree');
  mkdirSync(tree);
  write(tree, 'common.py', common);
  write(tree, 'test_ops.py', ops);
  const memory = join(folder, 'm.db');
  const index = (...args) => run(['index', tree, '--memory', memory, ...args]);
  const search = (...args) => run(['search', '--memory', memory, ...args]);
  return {folder, tree, memory, index, search};
}

function inventory(tests, {torch = '2.13.0+cpu', root} = {}) {
  return inventoryText({
    suite: {name: 'tree', root},
    device: 'cpu',
    environment: {torch},
    tests: tests.map(([dtype, line]) => ({
      node: `test_ops.py::TestOpsCPU::test_logaddexp_cpu_${dtype}`,
      file: 'test_ops.py',
      class: 'TestOps',
      method: 'test_logaddexp',
      variant: {device: 'cpu', dtype, op: 'logaddexp'},
      line,
    })),
  });
}

test('a tree is indexed, brought up to date, searched and exported', (t) => {
  const {folder, tree, memory, index, search} = makeTree(t);
  assert.match(search('x').err, /there is no index of a tree\n {2}remedy: make one: crosscheck index TREE/);
  const first = index();
  assert.equal(first.code, 0, first.err);
  assert.match(first.out, /^2 files \(2 read, 0 removed\): 2 tests, 1 classes, 1 helpers, in /);
  const found = search('numerical accuracy');
  assert.equal(found.code, 0);
  assert.match(found.out, /^test_ops\.py:10 {2}TestOps::test_logaddexp\n {4}Numerical accuracy near zero\.\n {4}Uses torch\.logaddexp\. Decorated with ops\.\n {4}doc: numerical accuracy {2}\(words: 1\b/);
  const hits = JSON.parse(search('logaddexp', '--json').out).hits;
  assert.deepEqual(
    hits.map(({file, line, name, matched}) => [file, line, name, matched.name]),
    [['test_ops.py', 10, 'TestOps::test_logaddexp', ['logaddexp']]],
  );
  const meant = JSON.parse(search('logaddexponential', '--json').out).hits[0];
  assert.deepEqual([meant.name, meant.words_rank, meant.meaning_rank], ['TestOps::test_logaddexp', 0, 1]);
  assert.equal(search('logaddexponential', '--by', 'words').code, 1);
  assert.equal(search('logaddexponential', '--by', 'meaning').code, 0);
  assert.equal(search('logaddexp', '--by', 'guess').code, 2);
  assert.equal(search('nothing_of_the_kind').code, 1);
  write(tree, 'test_more.py', 'def test_more(): pass\n');
  assert.match(index().out, /^3 files \(1 read, 0 removed\)/);
  const updated = join(folder, 'updated.jsonl');
  const rebuilt = join(folder, 'rebuilt.jsonl');
  assert.equal(run(['index', '--memory', memory, '--export', updated]).code, 0);
  assert.equal(run(['index', tree, '--memory', join(folder, 'n.db'), '--export', rebuilt]).code, 0);
  assert.equal(readFileSync(updated, 'utf8'), readFileSync(rebuilt, 'utf8'));
  rmSync(join(tree, 'test_more.py'));
  assert.match(index().out, /^2 files \(0 read, 1 removed\)/);
});

test('the memory lies beside the store', (t) => {
  const {folder, tree} = makeTree(t);
  const {code, out} = run(['index', tree, '--db', join(folder, 'some.db')]);
  assert.equal(code, 0);
  assert.ok(out.includes(join(folder, 'some.memory.db')), out);
});

test('what cannot be read is named and counted, and the rest goes on', (t) => {
  const {tree, index, search} = makeTree(t);
  write(tree, 'broken.py', 'def (\n\ndef test_after(): pass\n');
  writeFileSync(join(tree, 'latin.py'), Buffer.from('# coding: latin-1\n# caf\xe9\ndef test_latin(): pass\n', 'latin1'));
  write(tree, 'huge.py', '');
  truncateSync(join(tree, 'huge.py'), 50 << 20);
  symlinkSync('.', join(tree, 'loop'));
  write(tree, 'garbage.py', 'not '.repeat(70_000));
  const done = index();
  assert.equal(done.code, 0);
  for (const line of [
    /broken\.py: syntax error at 1:/,
    /garbage\.py: a syntax error that spans more tokens/,
    /huge\.py: is larger \(50 MB\)/,
    /latin\.py: not UTF-8 \(it says latin-1\)/,
    /loop: a link to a folder that it lies in/,
    /^5 problems; everything else is indexed$/m,
  ]) {
    assert.match(done.err, line);
  }
  assert.equal(index('--strict').code, 3);
  assert.equal(search('test_latin').code, 0);
  assert.equal(search('test_after').code, 0);
});

test('a file that may not be read is named', {skip: process.getuid() === 0 && 'root may read everything'}, (t) => {
  const {tree, index} = makeTree(t);
  chmodSync(write(tree, 'secret.py', ''), 0);
  assert.match(index().err, /secret\.py/);
});

test('narrowing drops tests, says why, and forgets nothing', (t) => {
  const {index, memory, search} = makeTree(t);
  const done = index('--without', 'device:cuda');
  assert.match(done.out, /1 tests are kept, others dropped:\n +1 {2}\w+\n/);
  assert.doesNotMatch(search('test').out, /test_cuda_only/);
  assert.match(search('test', '--dropped').out, /test_cuda_only {2}\[dropped: \w+\]/);
  const why = run(['index', '--memory', memory, '--explain', 'test_ops.py::TestOps::test_cuda_only']);
  assert.match(why.out, /is dropped: .*\n {2}rule: {2}\w+ \(rules\.yaml:\d+\)\n {2}found: decorator onlyCUDA/);
  const kept = run(['index', '--memory', memory, '--explain', 'test_ops.py::TestOps::test_logaddexp']);
  assert.match(kept.out, /is kept: no rule drops it/);
  assert.match(run(['index', '--memory', memory, '--explain', 'test_op.py']).err, /the memory has no such file/);
  assert.match(index('--without', 'device:cudda').err, /no rule depends on 'device:cudda'/);
  index();
  assert.match(search('test').out, /test_cuda_only/);
});

test('rules of a file are added, and take the place of those of the same name', (t) => {
  const {folder, index} = makeTree(t);
  const rules = write(
    folder,
    'rules.yaml',
    'rules:\n  - id: mine\n    drop: test\n    reason: slow here\n    where:\n      - api: ["torch.log*"]\n',
  );
  assert.match(index('--rules', rules).out, /1 {2}mine/);
  const wrong = write(folder, 'wrong.yaml', 'rules:\n  - id: mine\n    drop: everything\n');
  const refused = index('--rules', wrong);
  assert.equal(refused.code, 3);
  assert.match(refused.err, /wrong\.yaml:2:\d+: a rule needs 'reason'/);
});

test('collected tests hang on their definitions', (t) => {
  const {folder, tree, index, search} = makeTree(t);
  const file = write(folder, 'i.jsonl', inventory([['float32', 9], ['float16', 9]], {root: tree}));
  assert.match(index('--inventory', file).out, /2 collected tests, 0 of them without a definition here/);
  assert.match(search('op:logaddexp', 'dtype:float16').out, /TestOps::test_logaddexp {2}\(2 collected\)/);
  assert.equal(search('op:logaddexp', 'dtype:int64').code, 1);
  assert.equal(search('ops:logaddexp').code, 2);
  const cut = write(folder, 'cut.jsonl', readFileSync(file, 'utf8').slice(0, -20));
  const refused = index('--inventory', cut);
  assert.equal(refused.code, 3);
  assert.match(refused.err, /cut\.jsonl:\d+: /);
  const elsewhere = write(folder, 'e.jsonl', inventory([['float32', 90], ['float16', 90]], {root: tree}));
  const other = index('--inventory', elsewhere);
  assert.equal(other.code, 4);
  assert.match(other.err, /of 2 tests collected of torch 2\.13\.0\+cpu, 2 are not where the inventory says/);
  write(tree, 'version.txt', '2.6.0a0\n');
  const version = index('--inventory', file);
  assert.equal(version.code, 4);
  assert.match(version.err, /is the tree of PyTorch 2\.6\.0, but .* was collected of torch 2\.13\.0\+cpu/);
});

test('what became of the tests: two folders, two memories, two revisions', (t) => {
  const {folder, tree, memory, index} = makeTree(t);
  const git = (...args) => {
    const done = spawnSync('git', ['-C', tree, '-c', 'user.name=t', '-c', 'user.email=t@example.org', ...args], {encoding: 'utf8'});
    assert.equal(done.status, 0, done.stderr);
  };
  git('init', '-q');
  git('add', '.');
  git('commit', '-q', '-m', 'one');
  const before = join(folder, 'before');
  mkdirSync(before);
  for (const name of ['common.py', 'test_ops.py']) copyFileSync(join(tree, name), join(before, name));
  index();
  const old = join(folder, 'old.db');
  copyFileSync(memory, old);
  assert.equal(run(['diff', before, tree]).code, 0);
  write(tree, 'common.py', common.replace('return x', 'return x + 1'));
  write(tree, 'test_ops.py', ops.replace('test_cuda_only', 'test_on_cuda').replace('torch.add(1, 2)', 'torch.add(1, 2, out=torch.zeros(3, dtype=torch.float32))'));
  write(tree, 'test_new.py', 'def test_new(): pass\n');
  git('add', '.');
  git('commit', '-q', '-m', 'two');
  index();
  const results = [
    run(['diff', before, tree, '--json']),
    run(['diff', old, memory, '--json']),
    run(['diff', '--repository', tree, 'HEAD~1', 'HEAD', '--json']),
  ];
  for (const {code, out, err} of results) {
    assert.equal(code, 1, err);
    const diff = JSON.parse(out);
    assert.deepEqual(diff.added.map(({name}) => name), ['test_new', 'TestOps::test_on_cuda']);
    assert.deepEqual(diff.removed.map(({name}) => name), ['TestOps::test_cuda_only']);
    assert.deepEqual(
      diff.changed_by_helper.map(({name, through}) => [name, through]),
      [['TestOps::test_logaddexp', ['common.py::check changed']]],
    );
  }
  const unknown = run(['diff', '--repository', tree, 'HEAD~1', 'no-such-revision']);
  assert.equal(unknown.code, 3);
  assert.match(unknown.err, /'no-such-revision' is no folder, no repository memory and no revision of /);
});

test('mode: keeps the tests to which a configuration gives it', (t) => {
  const {folder, index, search} = makeTree(t);
  assert.equal(index().code, 0);
  const config = join(folder, 'tests.yaml');
  writeFileSync(
    config,
    `test_suite_config:
  files:
    - path: test_ops.py
      unlisted_test_mode: skip
      tests:
        - names: ['TestOps::test_logaddexp']
          mode: xfail
`,
  );
  const found = (mode, ...more) => search(`mode:${mode}`, '--config', config, ...more);
  assert.match(found('xfail').out, /^test_ops\.py:10 {2}TestOps::test_logaddexp\n/);
  assert.match(found('skip').out, /^test_ops\.py:6 {2}TestOps::test_cuda_only\n/);
  assert.equal(found('mandatory_success').code, 1);
  assert.match(found('xfail', 'logaddexp').out, /test_logaddexp/);
  assert.equal(found('skip', 'logaddexp', '--by', 'words').code, 1);
  assert.match(search('mode:skip').err, /remedy: name it with --config/);
  assert.match(search('mode:never', '--config', config).err, /there is no mode 'never'/);
  assert.equal(search('mode:skip', '--config', join(folder, 'none.yaml')).code, 3);
});

test('a tree of another version than the installed torch is noted', (t) => {
  const {folder, tree, index} = makeTree(t);
  const python = write(folder, 'python', '#!/bin/sh\necho 2.13.0+cpu\n', 0o755);
  assert.equal(index('--python', python).err, '', 'the tree says no version');
  write(tree, 'version.txt', '2.6.0a0\n');
  const other = index('--python', python);
  assert.equal(other.code, 0);
  assert.match(other.err, /note: .* is the tree of PyTorch 2\.6\.0, but .* has torch 2\.13\.0\+cpu/);
  write(tree, 'version.txt', '2.13.0\n');
  assert.equal(index('--python', python).err, '');
  assert.equal(index('--python', '/bin/false').code, 4);
});

// An OpenAI-compatible endpoint: it answers in turn as `script` says, then as it should.
async function endpoint(t, script = []) {
  const seen = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => (body += chunk));
    request.on('end', () => {
      seen.push({path: request.url, key: request.headers.authorization, body: JSON.parse(body)});
      const {status = 200, headers = {}, text, silent} = script.shift() ?? {};
      if (silent) return;
      const {input} = seen.at(-1).body;
      const vectors = input?.map((one, index) => ({index, embedding: /logaddexp|exponents/.test(one) ? [1, 0, 0] : [0, 1, 0]}));
      const good = vectors ? {data: vectors} : {choices: [{message: {content: 'What a model says.'}}]};
      response.writeHead(status, headers).end(text ?? JSON.stringify(good));
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return {url: `http://127.0.0.1:${server.address().port}`, seen};
}

test('an endpoint adds vectors and summaries, once, within a budget', async (t) => {
  const {tree, memory} = makeTree(t);
  const {url, seen} = await endpoint(t);
  const models = ['--endpoint', url, '--embedding-model', 'small'];
  const env = {CROSSCHECK_ENDPOINT_KEY: 'top-secret'};
  const index = (...args) => runAsync(['index', tree, '--memory', memory, ...args], {env});
  const first = await index(...models, '--summary-model', 'chat', '--budget', '2');
  assert.equal(first.code, 0, first.err);
  assert.match(first.out, /endpoint: 2 requests, 0 of them failed; 2 tests embedded, 1 summarised; 0 answers known before, 1 left/);
  assert.deepEqual(
    seen.map(({path, key, body}) => [path, key, body.model]),
    [
      ['/v1/embeddings', 'Bearer top-secret', 'small'],
      ['/v1/chat/completions', 'Bearer top-secret', 'chat'],
    ],
  );
  assert.ok(!(first.out + first.err + readFileSync(memory, 'latin1')).includes('top-secret'));
  const second = JSON.parse((await index(...models, '--summary-model', 'chat', '--json')).out).endpoint;
  assert.deepEqual([second.requests, second.embedded, second.summarised, second.kept], [1, 0, 1, 3]);
  const search = (...args) => runAsync(['search', '--memory', memory, '--json', ...args], {env});
  const [hit] = JSON.parse((await search('exponents', ...models)).out).hits;
  assert.deepEqual([hit.name, hit.model_rank, hit.words_rank], ['TestOps::test_logaddexp', 1, 0]);
  assert.deepEqual([hit.summary, hit.summary_model], ['What a model says.', 'chat']);
  assert.equal((await search('exponents')).code, 1);
});

test('an endpoint that is down, slow or answers nonsense costs only its part', async (t) => {
  const {tree, memory} = makeTree(t);
  const script = [];
  const {url} = await endpoint(t, script);
  const index = (...args) =>
    runAsync(['index', tree, '--memory', memory, '--embedding-model', 'small', '--endpoint-timeout', '1', ...args]);
  const vectors = (...all) => JSON.stringify({data: all.map((embedding) => ({embedding}))});
  for (const [answer, what] of [
    [{text: '<html>Sign in</html>'}, /endpoint: \/v1\/embeddings: the answer is no JSON/],
    [{text: vectors([1, 2])}, /1 vectors for 2 texts/],
    [{text: vectors([1, 2], [1])}, /vectors of different dimensions/],
    [{text: '{"data":[{"embedding":[NaN]},{"embedding":[1]}]}'}, /no JSON/],
    [{status: 401, text: '{"error":{"message":"no such key"}}'}, /status 401: no such key/],
  ]) {
    script.push(answer);
    const {code, err} = await index('--endpoint', url);
    assert.equal(code, 0, err);
    assert.match(err, what);
    assert.match(err, /2 answers are left: the same command again goes on with them/);
  }
  script.push({status: 429, headers: {'retry-after': '0'}}, {status: 500, headers: {'retry-after': '0'}}, {silent: true});
  const faults = await index('--endpoint', url, '--json');
  const report = JSON.parse(faults.out).endpoint;
  assert.deepEqual([report.requests, report.failed, report.left], [3, 3, 2]);
  assert.match(faults.err, /status 429[^]*status 500/);
  assert.match((await index('--endpoint', 'http://127.0.0.1:9')).err, /given up|endpoint: /);
  assert.match((await index('--endpoint', 'ftp://x')).err, /no http:\/\/ or https:\/\/ address/);
  const found = await runAsync(['search', '--memory', memory, 'logaddexp', '--endpoint', 'http://127.0.0.1:9', '--embedding-model', 'small']);
  assert.equal(found.code, 0);
  assert.match(found.err, /the endpoint is not used: /);
});

// A llama.cpp server with models of one's own: `llama-server --embeddings -m MODEL`.
test(
  'a real server makes vectors that a search uses',
  {skip: !process.env.CROSSCHECK_REAL_ENDPOINT && 'set CROSSCHECK_REAL_ENDPOINT to the address of a llama.cpp server'},
  async (t) => {
    const {tree, memory} = makeTree(t);
    const models = ['--endpoint', process.env.CROSSCHECK_REAL_ENDPOINT, '--embedding-model', 'local'];
    const index = await runAsync(['index', tree, '--memory', memory, ...models, '--summary-model', 'local', '--json']);
    const {embedded, problems} = JSON.parse(index.out).endpoint;
    assert.equal(embedded, 2, problems.join('; '));
    const {out} = await runAsync(['search', '--memory', memory, '--json', 'numerical accuracy near zero', ...models]);
    assert.ok(JSON.parse(out).hits.some((hit) => hit.model_rank > 0));
  },
);
