// Dispatching to GitHub, in every way that GitHub may answer. The double holds each request to GitHub's own description.
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {
  eventually,
  githubSettings,
  pullRequest,
  secret,
  send,
  serve,
  temporaryFolder,
  write,
} from '../e2e/harness.mjs';
import {GitHubDouble} from './github.mjs';

const REPOSITORIES = ['org-a/backend', 'org-b/backend', 'org-c/backend'];
const ONE = REPOSITORIES[0];

async function setUp(t, {repositories = REPOSITORIES, installed = repositories} = {}) {
  const github = await new GitHubDouble({repositories: installed}).start();
  t.after(() => github.stop());
  const folder = temporaryFolder(t);
  const {settings, env} = githubSettings(folder, {github, repositories});
  const server = await serve(t, {folder, settings, env, local: false});
  const event = async (change) => {
    const sent = await send(server.url, {body: pullRequest({change}), secret});
    assert.equal(sent.status, 202, JSON.stringify(sent.answer));
    return sent.delivery;
  };
  const arrived = (repository, delivery) =>
    github.accepted(repository).filter((d) => d.client_payload.delivery_id === delivery);
  const dispatches = (delivery, repositories = REPOSITORIES) =>
    eventually(`${delivery} is dispatched to ${repositories.join(', ')}`, () =>
      repositories.every((repository) => arrived(repository, delivery).length > 0),
    );
  return {github, server, event, arrived, dispatches, folder};
}

test('one event reaches every listed repository once, as GitHub wants it', async (t) => {
  const {github, event, arrived, dispatches} = await setUp(t);
  const delivery = await event();
  await dispatches(delivery);
  for (const repository of REPOSITORIES) {
    const [{event_type, client_payload}, ...more] = arrived(repository, delivery);
    assert.deepEqual(more, []);
    assert.equal(event_type, 'pull_request');
    assert.equal(client_payload.event_type, 'pull_request');
    assert.equal(client_payload.payload.action, 'opened');
    assert.equal(client_payload.payload.repository.full_name, 'pytorch/pytorch');
    assert.ok(client_payload.payload.pull_request.head.sha);
  }
  assert.deepEqual(github.violations, []);
});

test('installations and tokens are asked for once, and again when a token has ended', async (t) => {
  const {github, event, dispatches} = await setUp(t);
  for (let n = 0; n < 5; n += 1) await dispatches(await event());
  assert.equal(github.count('POST', /access_tokens$/), REPOSITORIES.length);
  assert.equal(github.count('GET', /installation$/), REPOSITORIES.length);
  github.expireTokens();
  await dispatches(await event());
  assert.equal(github.count('POST', /access_tokens$/), 2 * REPOSITORIES.length);
  assert.deepEqual(github.violations, []);
});

for (const [what, answers] of [
  ['500', [{status: 500}]],
  ['503', [{status: 503}]],
  ['with the end of the connection', [{close: true}]],
  ['with the end of the connection after it acted', [{close: true, accepts: true}]],
  ['429 with Retry-After', [{status: 429, headers: {'retry-after': '1'}}]],
  ['403 with Retry-After', [{status: 403, headers: {'retry-after': '1'}}]],
  [
    '403 with the rate limit used up',
    [
      {
        status: 403,
        headers: {
          'x-ratelimit-remaining': '0',
          'x-ratelimit-reset': String(Math.floor(Date.now() / 1000) + 2),
        },
      },
    ],
  ],
]) {
  test(`answered ${what}: tried again, and the others do not wait`, async (t) => {
    const {github, event, arrived, dispatches} = await setUp(t);
    github.script(ONE, answers);
    const delivery = await event();
    await dispatches(delivery, REPOSITORIES.slice(1));
    await dispatches(delivery);
    // Where GitHub acted and did not say so, it is told twice.
    const expected = answers[0].accepts ? 2 : 1;
    await eventually('it is tried again', () => arrived(ONE, delivery).length === expected);
    const [first, second] = github.requests.filter(({path}) => path === `/repos/${ONE}/dispatches`);
    if (answers[0].headers?.['retry-after'])
      assert.ok(second.at - first.at >= 1000, 'waits as told');
    assert.deepEqual(github.violations, []);
  });
}

for (const status of [403, 404, 422]) {
  test(`answered ${status}: no success, not repeated, seen by people`, async (t) => {
    const {github, server, event, arrived, dispatches} = await setUp(t);
    github.script(ONE, [{status, message: 'scripted refusal'}]);
    const delivery = await event();
    await dispatches(delivery, REPOSITORIES.slice(1));
    const page = await eventually('the refusal is on the page', async () => {
      const text = JSON.stringify(await server.json('/pr/2.json'));
      return text.includes('not_dispatched') && text;
    });
    assert.match(page, new RegExp(`${status}|scripted refusal`));
    assert.equal(arrived(ONE, delivery).length, 0);
    // A later event is tried anew.
    await dispatches(await event());
    assert.equal(github.count('POST', new RegExp(`^/repos/${ONE}/dispatches$`)), 2);
    assert.deepEqual(github.violations, []);
  });
}

test('an App that is not installed: the others are dispatched to', async (t) => {
  const {github, server, event, dispatches} = await setUp(t, {installed: REPOSITORIES.slice(1)});
  const delivery = await event();
  await dispatches(delivery, REPOSITORIES.slice(1));
  await eventually('it is on the page', async () =>
    JSON.stringify(await server.json('/pr/2.json')).includes('not_dispatched'),
  );
  assert.deepEqual(github.violations, []);
});

test('a 502 after GitHub acted: repeated once at most', async (t) => {
  const {github, event, arrived, dispatches} = await setUp(t);
  github.script(ONE, [{status: 502, accepts: true}]);
  const delivery = await event();
  await dispatches(delivery);
  await dispatches(await event());
  assert.ok(arrived(ONE, delivery).length <= 2);
  assert.deepEqual(github.violations, []);
});

test('a call that hangs holds up no other repository', async (t) => {
  const {github, server, event, dispatches} = await setUp(t);
  github.script(ONE, ['hang']);
  await dispatches(await event(), REPOSITORIES.slice(1));
  await dispatches(await event(), REPOSITORIES);
  assert.ok(
    [...github.hanging].every((call) => !call.destroyed),
    'while that call still hangs',
  );
  const ended = await server.stop();
  assert.deepEqual(ended, {code: 0, signal: null});
  assert.deepEqual(github.violations, []);
});

test('a pull request with the longest body GitHub allows is slimmed and dispatched', async (t) => {
  const {github, event, arrived, dispatches} = await setUp(t, {repositories: [ONE]});
  const delivery = await event((payload) => {
    payload.pull_request.body = '\u20ac'.repeat(65_536);
    payload.pull_request.labels = [{...payload.repository, name: 'module: "rocm"', color: 'fff'}];
  });
  await dispatches(delivery, [ONE]);
  const [{client_payload}] = arrived(ONE, delivery);
  assert.ok(client_payload.truncated, 'says so');
  const {payload} = client_payload;
  for (const path of [
    'action',
    'pull_request.number',
    'pull_request.head.sha',
    'pull_request.head.ref',
    'pull_request.head.repo.full_name',
    'pull_request.base.ref',
    'pull_request.base.sha',
    'pull_request.title',
    'pull_request.user.login',
    'repository.full_name',
    'sender.login',
  ]) {
    assert.ok(
      path.split('.').reduce((at, key) => at?.[key], payload),
      `keeps ${path}`,
    );
  }
  assert.equal(payload.pull_request.labels[0].name, 'module: "rocm"');
  assert.deepEqual(github.violations, []);
});

test('killed while a call hangs: dispatched after the restart', async (t) => {
  const {github, server, event, dispatches, folder} = await setUp(t);
  github.script(ONE, ['hang']);
  const delivery = await event();
  await dispatches(delivery, REPOSITORIES.slice(1));
  await server.kill();
  const {settings, env} = githubSettings(folder, {github, repositories: REPOSITORIES});
  await serve(t, {folder, settings, env, local: false});
  await dispatches(delivery);
  assert.deepEqual(github.violations, []);
});

test('`paths` of a backend: asked for once an event, page by page; sent where GitHub does not say', async (t) => {
  const upstream = 'pytorch/pytorch';
  const github = await new GitHubDouble({repositories: [...REPOSITORIES, upstream]}).start();
  t.after(() => github.stop());
  const folder = temporaryFolder(t);
  const {settings, env} = githubSettings(folder, {github, repositories: REPOSITORIES});
  const filter = "{paths: ['torch/**']}";
  const [a, b, c] = REPOSITORIES;
  write(folder, 'allowlist.yaml', `L2:\n  - ${a}: ${filter}\n  - ${b}: ${filter}\n  - ${c}\n`);
  const server = await serve(t, {folder, settings, env, local: false});
  const other = Array.from({length: 230}, (_, n) => `docs/${n}.md`);
  for (const [number, changed, expected, pages] of [
    [11, other, [REPOSITORIES[2]], 3],
    [12, [...other, 'torch/x.py'], REPOSITORIES, 3],
    [13, ['torch/x.py'], REPOSITORIES, 1],
    [14, 500, REPOSITORIES, 2], // each of the two asks
    [15, 422, REPOSITORIES, 2],
  ]) {
    github.changed.set(number, changed);
    const change = (payload) => (payload.number = payload.pull_request.number = number);
    const {status, delivery} = await send(server.url, {body: pullRequest({change}), secret});
    assert.equal(status, 202);
    await eventually('every backend is decided on', async () => {
      const {commits} = await server.json(`/pr/${number}.json`);
      const states = commits.flatMap(({backends}) => backends.map(({dispatch}) => dispatch.state));
      return states.length === 3 && states.every((s) => ['dispatched', 'withdrawn'].includes(s));
    });
    const got = REPOSITORIES.filter((repository) =>
      github.accepted(repository).some((d) => d.client_payload.delivery_id === delivery),
    );
    assert.deepEqual(got, expected, `#${number}`);
    assert.ok(github.count('GET', new RegExp(`/pulls/${number}/files$`)) <= pages, `#${number}`);
  }
  assert.deepEqual(github.violations, []);
});
