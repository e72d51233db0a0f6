// Sections 1 to 4 and 15 of the scenarios: what a webhook is answered, and what leaves for it.
import assert from 'node:assert/strict';
import {generateKeyPairSync, randomUUID} from 'node:crypto';
import {join} from 'node:path';
import {test} from 'node:test';
import {
  eventually,
  ofRepository,
  payloads,
  pullRequest,
  run,
  secret,
  send,
  temporaryFolder,
  upstream,
  write,
} from '../e2e/harness.mjs';
import {REPOSITORIES, compare, hmac, relay, webhook} from './relay.mjs';

const SHA = 'c0ffee0000000000000000000000000000000001';
const push = (ref, more = {}) => ({
  ...ofRepository(payloads('push')[0], upstream),
  ref,
  after: SHA,
  deleted: false,
  ...more,
});
const labeled = (name) => ({...pullRequest(), action: 'labeled', label: {name}});

test('1 and 2: routes, signatures and bodies', async (t) => {
  const {server, github} = await relay(t);
  const {url} = server;
  const body = JSON.stringify(pullRequest());
  const sent = (headers, more = {}) => () => webhook(url, {body, headers, ...more});
  const plain = (method, path) => async () => {
    const response = await fetch(new URL(path, url), {method, redirect: 'manual'});
    return {status: response.status, answer: {detail: await response.text()}};
  };
  const durable = 'accepted first, dispatched afterwards';
  await compare(t, [
    ['GET on the webhook', plain('GET', '/github/webhook'), 405, 405],
    ['DELETE on the callback', plain('DELETE', '/github/callback'), 405, 405],
    ['POST elsewhere', plain('POST', '/github/other'), 404, 404],
    ['a slash after the path', plain('POST', '/github/webhook/'), 404, 404],
    ['a health route', plain('GET', '/healthz'), 404, 200, 'there is one'],
    ['no event name', sent({'x-github-event': undefined}), 200, 200],
    ['ping, unsigned', sent({'x-hub-signature-256': undefined}, {event: 'ping'}), 200, 200],
    ['another letter case', sent({}, {event: 'Pull_Request'}), 200, 200],
    ['ping, wrongly signed', sent({'x-hub-signature-256': 'sha256=00'}, {event: 'ping'}), 200, 200],
    ['unsigned', sent({'x-hub-signature-256': undefined}), 400, 400],
    ['an empty signature', sent({'x-hub-signature-256': ''}), 400, 400],
    [
      'only the sha1 signature',
      sent({
        'x-hub-signature-256': undefined,
        'x-hub-signature': hmac(body, {algorithm: 'sha1'}),
      }),
      400,
      400,
    ],
    ['another secret', sent({'x-hub-signature-256': hmac(body, {key: 'x'})}), 401, 401],
    ['without sha256=', sent({'x-hub-signature-256': hmac(body).slice(7)}), 401, 401],
    [
      'in upper case',
      sent({'x-hub-signature-256': `sha256=${hmac(body).slice(7).toUpperCase()}`}),
      401,
      401,
    ],
    ['of another body', sent({'x-hub-signature-256': hmac(`${body} `)}), 401, 401],
    ['no JSON', sent({}, {body: 'no json'}), 400, 400],
    ['a form', sent({}, {body: `payload=${encodeURIComponent(body)}`}), 400, 400],
    [
      'no JSON, wrongly signed',
      sent({'x-hub-signature-256': hmac('x')}, {body: 'no json'}),
      401,
      401,
    ],
    ['an empty body', sent({}, {body: ''}), 200, 400, 'no event is sent so: something is broken'],
    [
      'no delivery id',
      sent({'x-github-delivery': undefined}),
      200,
      400,
      'two of them could not be told apart',
    ],
    ['a delivery id of any text', sent({'x-github-delivery': 'not a uuid'}), 200, 202, durable],
    [
      'header names in capitals',
      async () => {
        const response = await fetch(new URL('/github/webhook', url), {
          method: 'POST',
          headers: {
            'X-GITHUB-EVENT': 'push',
            'X-Github-Delivery': randomUUID(),
            'X-HUB-SIGNATURE-256': hmac(JSON.stringify(push('refs/heads/main'))),
          },
          body: JSON.stringify(push('refs/heads/main')),
        });
        return {status: response.status, answer: await response.json()};
      },
      200,
      202,
      durable,
    ],
  ]);
  assert.deepEqual(github.violations, []);
});

test('2: a wrong setting stops the program with its name; theirs answers 500 to everything', (t) => {
  const folder = temporaryFolder(t);
  const allowlist = write(folder, 'allowlist.yaml', 'L1: [org/a1]\n');
  const broken = write(folder, 'broken.yaml', 'L1: [org/a1\n');
  const unclear = write(folder, 'providers.yaml', 'buildkite:\n  nothing: org/a1\n');
  const {privateKey} = generateKeyPairSync('rsa', {modulusLength: 2048});
  const good = {
    GITHUB_APP_ID: '4711',
    GITHUB_APP_SECRET: secret,
    GITHUB_APP_PRIVATE_KEY: privateKey.export({type: 'pkcs1', format: 'pem'}),
    CROSSCHECK_ALLOWLIST: allowlist,
  };
  for (const [change, named] of [
    [{GITHUB_APP_ID: ''}, 'github_app_id'],
    [{GITHUB_APP_ID: 'not an id'}, 'github_app_id'],
    [{GITHUB_APP_SECRET: ''}, 'webhook_secret'],
    [{GITHUB_APP_PRIVATE_KEY: ''}, 'github_app_private_key'],
    [{GITHUB_APP_PRIVATE_KEY: 'no key'}, 'github_app_private_key'],
    [{CROSSCHECK_ALLOWLIST: broken}, 'broken.yaml:2'],
    [{CROSSCHECK_CI_PROVIDERS: unclear}, 'providers.yaml:2:3'],
    [{UPSTREAM_REPO: 'pytorch'}, 'upstream_repo'],
    [{RATE_LIMIT_PER_MIN: '0'}, 'rate_limit_per_min'],
    [{RATE_LIMIT_PER_MIN: 'many'}, 'rate_limit_per_min'],
    [{MAX_DISPATCH_WORKERS: '-1'}, 'max_dispatch_workers'],
    [{ALLOWLIST_TTL_SECONDS: 'soon'}, 'allowlist_ttl_seconds'],
    [{ZOMBIE_TIMEOUT_SECONDS: '6h'}, 'zombie_timeout_seconds'],
    [{CRCR_STATUS_TTL: 'x'}, 'status_ttl_seconds'],
    [{HUD_API_URL: 'http://hud.test/api', HUD_BOT_KEY: 'k'}, 'hud_api_url'],
    [{HUD_API_URL: 'https://hud.test/api'}, 'hud_bot_key'],
    [{CI_PROVIDERS_URL: 'providers.yaml'}, 'ci_providers_url'],
  ]) {
    const {code, err} = run(
      ['serve', '--listen', '127.0.0.1:0', '--db', join(folder, 'never.db')],
      {cwd: folder, env: {...good, ...change}, timeout: 20_000},
    );
    assert.ok(code > 0, `${JSON.stringify(change)}: exited ${code}: ${err}`);
    assert.ok(err.includes(named), `${named} in: ${err}`);
    assert.ok(!err.includes('PRIVATE KEY-----\n') && !err.includes(secret), 'no secret is shown');
  }
});

test('3: what is forwarded', async (t) => {
  const {server, github, received, event} = await relay(t);
  const forwarded = [];
  const ask = (body, type = 'pull_request') => async () => {
    const sent = await send(server.url, {event: type, body, secret});
    if (sent.status === 202) forwarded.push([type, sent.delivery, body]);
    return sent;
  };
  const without = (body, path) => {
    const copy = structuredClone(body);
    delete copy[path];
    return copy;
  };
  const durable = 'accepted first, dispatched afterwards';
  const from = (full_name) => ({...pullRequest(), repository: {full_name}});
  const draft = pullRequest({change: (p) => (p.pull_request.draft = true)});
  const fork = pullRequest({change: (p) => (p.pull_request.head.repo.full_name = 'me/fork')});
  const ignored = [
    'edited',
    'assigned',
    'ready_for_review',
    'converted_to_draft',
    'review_requested',
    'unlabeled',
    'enqueued',
    '',
  ].map((action) => [
    `a pull request: '${action}'`,
    ask({...pullRequest(), action}),
    200,
    200,
  ]);
  await compare(t, [
    ...['opened', 'reopened', 'synchronize', 'closed'].map((action) => [
      `a pull request: ${action}`,
      ask(pullRequest({action})),
      200,
      202,
      durable,
    ]),
    ['a draft', ask(draft), 200, 202, durable],
    ['from a fork', ask(fork), 200, 202, durable],
    ...ignored,
    ['no action', ask(without(pullRequest(), 'action')), 200, 200],
    ['of another repository', ask(from('fork/pytorch')), 200, 200],
    ['of none', ask(without(pullRequest(), 'repository')), 200, 200],
    ['of null', ask({...pullRequest(), repository: null}), 200, 200],
    ['of upstream, in other letter case', ask({...pullRequest(), repository: {full_name: 'PyTorch/PyTorch'}}), 200, 202, durable],
    ['labelled with something else', ask(labeled('ciflow/trunk')), 200, 200],
    ['labelled with no text', ask({...pullRequest(), action: 'labeled', label: 7}), 200, 200],
    ['a push to a branch', ask(push('refs/heads/main'), 'push'), 200, 202, durable],
    ['to a stack of ghstack', ask(push('refs/heads/gh/me/1/head'), 'push'), 200, 202, durable],
    ['of a tag', ask(push('refs/tags/ciflow/trunk/7'), 'push'), 200, 202, durable],
    [
      'that deletes',
      async () => {
        const sent = await ask(push('refs/heads/x', {deleted: true, after: '0'.repeat(40)}), 'push')();
        assert.equal(sent.answer.ignored, true);
        return {...sent, status: 299};
      },
      202,
      299,
      'a deletion is nothing to test: 200, ignored',
    ],
    ...['completed', 'created', 'requested_action'].map((action) => [
      `a check run: ${action}`,
      ask({...ofRepository(payloads('check_run')[0], upstream), action}, 'check_run'),
      200,
      200,
    ]),
    ...['completed', 'requested'].map((action) => [
      `a check suite: ${action}`,
      ask({...ofRepository(payloads('check_suite')[0], upstream), action}, 'check_suite'),
      200,
      200,
    ]),
  ]);
  // `closed` withdrew what had not been sent before it; what came after it has all gone out.
  const last = await event();
  await eventually('all is dispatched', () =>
    REPOSITORIES.every((repository) => received(repository, last).length === 1),
  );
  const tag = forwarded.find(([, , body]) => body.ref === 'refs/tags/ciflow/trunk/7');
  for (const repository of REPOSITORIES) {
    const [dispatch] = received(repository, tag[1]);
    assert.equal(dispatch.event_type, 'push');
    assert.deepEqual(Object.keys(dispatch).filter((key) => key !== 'at'), [
      'event_type',
      'client_payload',
    ]);
    assert.deepEqual(Object.keys(dispatch.client_payload).sort(), [
      'delivery_id',
      'event_type',
      'payload',
    ]);
    assert.deepEqual(dispatch.client_payload.payload, tag[2], 'the webhook, whole');
  }
  const closed = forwarded.find(([, , body]) => body.action === 'closed');
  for (const repository of REPOSITORIES)
    assert.equal(received(repository, closed[1]).length, 1, 'closed is dispatched, to cancel');
  const pages = await server.json('/pr/7.json');
  assert.ok(JSON.stringify(pages).includes(SHA), "the tag belongs to its pull request's page");
  assert.deepEqual(github.violations, []);
});

test('3: participation and branches of the allowlist', async (t) => {
  const {server, received} = await relay(t, {
    allowlist: `L2:
  - org/b1: {events: [nightly]}
  - org/b2: {branches: ['main', 'release/**']}
  - org/b3: {events: [pull_request], oncalls: [erin], branches: ['!gh/**']}
`,
  });
  const count = async (body, event) =>
    (await send(server.url, {event, body, secret})).answer.dispatches;
  assert.equal(await count(pullRequest({change: (p) => (p.pull_request.base.ref = 'main')})), 2);
  assert.equal(await count(pullRequest({change: (p) => (p.pull_request.base.ref = 'dev')})), 1);
  assert.equal(await count(push('refs/heads/release/2.9'), 'push'), 2);
  assert.equal(await count(push('refs/heads/gh/me/1/head'), 'push'), 0);
  assert.equal(await count(push('refs/tags/ciflow/trunk/7'), 'push'), 2, 'tags always pass');
  const {delivery} = await send(server.url, {body: pullRequest(), secret});
  await eventually('it is dispatched', () => received('org/b3', delivery).length === 1);
  assert.equal(received('org/b1', delivery).length, 0);
});

test('4: a redelivery re-arms what died, and nothing else', async (t) => {
  const {server, github, received} = await relay(t);
  const [dead, ...others] = REPOSITORIES;
  github.script(dead, [{status: 404, message: 'scripted'}]);
  const body = pullRequest();
  const first = await send(server.url, {body, secret});
  assert.equal(first.status, 202, 'theirs: 200, after all was sent');
  assert.equal(first.answer.dispatches, REPOSITORIES.length);
  await eventually('the refusal is on the page', async () =>
    JSON.stringify(await server.json(`/pr/${body.pull_request.number}.json`)).includes('scripted'),
  );
  await eventually('the others have it', () =>
    others.every((repository) => received(repository, first.delivery).length === 1),
  );
  const again = await send(server.url, {body, secret, delivery: first.delivery});
  assert.equal(again.status, 200, 'theirs: 502, and everything twice');
  assert.deepEqual(
    [again.answer.duplicate, again.answer.armed_again, again.answer.event],
    [true, 1, first.answer.event],
  );
  await eventually('it is sent after all', () => received(dead, first.delivery).length === 1);
  const third = await send(server.url, {body, secret, delivery: first.delivery});
  assert.equal(third.answer.armed_again, 0);
  // What a later event has reached would have reached them after anything that was sent for the third.
  const later = await send(server.url, {body: pullRequest({action: 'reopened'}), secret});
  await eventually('the later one is dispatched', () =>
    REPOSITORIES.every((repository) => received(repository, later.delivery).length === 1),
  );
  for (const repository of REPOSITORIES)
    assert.equal(received(repository, first.delivery).length, 1, repository);
  assert.deepEqual(github.violations, []);
});

test('4: a redelivery re-arms the check runs that died as well', async (t) => {
  const {server, github, received} = await relay(t, {allowlist: 'L4: [org/d1]\n'});
  github.script(upstream, [{status: 403, message: 'Resource not accessible'}]);
  const body = pullRequest();
  const {delivery} = await send(server.url, {body, secret});
  await eventually('it is refused', () =>
    github.requests.some(({path, status}) => path.endsWith('/check-runs') && status === 403),
  );
  await eventually('it is armed again', async () => {
    const {answer} = await send(server.url, {body, secret, delivery});
    return answer.armed_again === 1;
  });
  await eventually('it is shown', () => github.checkRuns(upstream).length === 1);
  assert.equal(received('org/d1', delivery).length, 1);
  assert.deepEqual(github.violations, []);
});

test('4: nobody is listed', async (t) => {
  const {server} = await relay(t, {allowlist: '# nobody\n'});
  const sent = await send(server.url, {body: pullRequest(), secret});
  assert.deepEqual([sent.status, sent.answer.dispatches], [202, 0]);
});

test('15: a broken allowlist changes nothing, and a repaired one counts at once', async (t) => {
  const {server, folder} = await relay(t, {settings: 'allowlist_ttl_seconds: 1\n'});
  const dispatches = async () =>
    (await send(server.url, {body: pullRequest(), secret})).answer.dispatches;
  assert.equal(await dispatches(), REPOSITORIES.length);
  const error = async () => (await server.json('/readyz')).allowlist.error;
  for (const broken of ['L2: [a/b', 'L5: [org/b1]']) {
    write(folder, 'allowlist.yaml', broken);
    await eventually(`'${broken}' is noticed`, error);
    assert.equal(await dispatches(), REPOSITORIES.length, 'theirs: 500 until its cache ends');
    write(folder, 'allowlist.yaml', `L1: [${REPOSITORIES}]\n# after ${broken.length} bytes\n`);
    await eventually('it is good again', async () => !(await error()));
  }
  write(folder, 'allowlist.yaml', 'L2: [org/b1]\n');
  await eventually('a shorter one counts', async () => (await dispatches()) === 1);
});
