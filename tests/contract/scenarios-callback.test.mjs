// Sections 8 to 11 and 14 of the scenarios: what a callback is answered, and what is kept of it.
import assert from 'node:assert/strict';
import {createHmac, createPublicKey, randomUUID, sign} from 'node:crypto';
import {test} from 'node:test';
import {eventually, write} from '../e2e/harness.mjs';
import {Issuer, callback, report} from './issuer.mjs';
import {LEVELS, compare, relay} from './relay.mjs';

const [ONE, TWO] = LEVELS.L2;
const COMMIT = 'deadbeef00000000000000000000000000000001';
const OTHER = 'deadbeef00000000000000000000000000000002';
const seconds = () => Math.floor(Date.now() / 1000);
const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');

// The one job that was reported for a commit.
async function jobOf(server, commit) {
  const text = JSON.stringify(await server.json(`/commit/${commit}.json`));
  return server.json(`${text.match(/\/job\/\d+/)[0]}.json`);
}

async function post(url, {authorization, body, headers = {}}) {
  const response = await fetch(new URL('/github/callback', url), {
    method: 'POST',
    headers: {...(authorization === undefined ? {} : {authorization}), ...headers},
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  const text = await response.text();
  return {status: response.status, answer: text.startsWith('{') ? JSON.parse(text) : text};
}

test('8: who calls', async (t) => {
  const {server, issuer, dispatched} = await relay(t);
  const delivery = await dispatched([ONE]);
  const {url} = server;
  let run = 0;
  const body = () => report(delivery, {run_id: String((run += 1))});
  const bearer = (token) => () => post(url, {authorization: `Bearer ${token}`, body: body()});
  const claims = (more, signing) => bearer(issuer.token(ONE, more, signing));
  const [, payload] = issuer.token(ONE).split('.');
  const publicPem = createPublicKey({key: issuer.keys[0], format: 'jwk'}).export({
    type: 'spki',
    format: 'pem',
  });
  const hs256 = `${encode({alg: 'HS256', kid: issuer.signing.kid})}.${payload}`;
  const noKid = `${encode({alg: 'RS256'})}.${payload}`;
  const leeway = 'clocks differ: 60 s are forgiven';
  await compare(t, [
    ['no JSON and no token', () => post(url, {body: '{'}), 400, 400],
    ['an empty body and no token', () => post(url, {body: ''}), 401, 401],
    ['no token', () => post(url, {body: body()}), 401, 401],
    ['an empty one', bearer(''), 401, 401],
    ['garbage', bearer('garbage'), 401, 401],
    ['Basic', () => post(url, {authorization: 'Basic eDp5', body: body()}), 401, 401],
    ['a good one', bearer(issuer.token(ONE)), 200, 200],
    ['without Bearer', () => post(url, {authorization: issuer.token(ONE), body: body()}), 200, 200],
    [
      'with bearer',
      () => post(url, {authorization: `bearer ${issuer.token(ONE)}`, body: body()}),
      200,
      200,
    ],
    ['an issuer with a slash more', claims({iss: `${issuer.url}/`}), 401, 401],
    ['an unknown issuer', claims({iss: 'https://evil.test'}), 401, 401],
    ['no issuer', claims({iss: undefined}), 401, 401],
    ['another audience', claims({aud: 'elsewhere'}), 401, 401],
    ['no audience', claims({aud: undefined}), 401, 401],
    ['expired', claims({exp: seconds() - 120}), 401, 401],
    ['expired just now', claims({exp: seconds() - 10}), 401, 200, leeway],
    ['no end', claims({exp: undefined}), 200, 401, 'a token must end'],
    ['not valid yet', claims({nbf: seconds() + 120}), 401, 401],
    ['not valid for a moment', claims({nbf: seconds() + 10}), 401, 200, leeway],
    ['issued in the future', claims({iat: seconds() + 120}), 401, 401],
    ['another key of the same name', claims({}, {...new Issuer().signing, kid: issuer.signing.kid}), 401, 401],
    ['an unknown key', claims({}, new Issuer().signing), 401, 401],
    [
      'no key named',
      bearer(
        `${noKid}.${sign('RSA-SHA256', Buffer.from(noKid), issuer.signing.privateKey).toString('base64url')}`,
      ),
      401,
      401,
    ],
    ['alg none', bearer(`${encode({alg: 'none', kid: issuer.signing.kid})}.${payload}.`), 401, 401],
    [
      'HS256 with the public key',
      bearer(`${hs256}.${createHmac('sha256', publicPem).update(hs256).digest('base64url')}`),
      401,
      401,
    ],
    ['no repository', claims({repository: undefined}), 401, 401],
    ['an empty repository', claims({repository: ''}), 401, 401],
    [
      'of another run than the body says',
      claims({run_id: '999999'}),
      200,
      403,
      'the token must be of the run that it reports',
    ],
    [
      'of another attempt',
      claims({run_attempt: '2'}),
      200,
      403,
      'the token must be of the attempt that it reports',
    ],
  ]);
});

test('9: Buildkite', async (t) => {
  const providers = `providers:
  buildkite:
    issuer: https://evil.test
    jwks_uri: https://evil.test/jwks
    repo_map:
      org-1/pipe-1: ${ONE}
      org-1/pipe-2:
        repo: ${TWO}
        required_claims: {build_branch: [main, release], build_source: schedule}
buildkite:
  org-1/old: ${ONE}
`;
  const mapping = (folder) => `ci_providers: ${folder}/providers.yaml\nallowlist_ttl_seconds: 1\n`;
  const {server, issuer, folder, dispatched} = await relay(t, {
    issuers: (one) => one.buildkiteSettings,
    settings: mapping('.'),
    prepare: (folder) => write(folder, 'providers.yaml', providers),
  });
  const delivery = await dispatched([ONE, TWO]);
  const {url} = server;
  const token = (pipeline, more = {}) =>
    issuer.token('evil/other', {organization_id: 'org-1', pipeline_id: pipeline, ...more});
  const build = randomUUID();
  const ask =
    (pipeline, claims, workflow = {}) =>
    () =>
      callback(
        url,
        token(pipeline, claims),
        report(delivery, {run_id: build, check_run_id: `${build}-1`, job_name: randomUUID(), ...workflow}),
      );
  const good = {build_branch: 'main', build_source: 'schedule'};
  const uuid = 'a build is named by a UUID there';
  await compare(t, [
    ['a mapped pipeline', ask('pipe-1'), 500, 200, uuid],
    ['one that is not mapped', ask('pipe-9'), 403, 403],
    ['of the old form, beside the new one', ask('old'), 403, 403],
    ['no pipeline', ask(undefined), 401, 401],
    ['no organization', ask('pipe-1', {organization_id: undefined}), 401, 401],
    ['another organization', ask('pipe-1', {organization_id: 'org-2'}), 403, 403],
    ['what is required', ask('pipe-2', good), 500, 200, uuid],
    ['one of several values', ask('pipe-2', {...good, build_branch: 'release'}), 500, 200, uuid],
    ['another value', ask('pipe-2', {...good, build_branch: 'dev'}), 403, 403],
    ['no value', ask('pipe-2', {build_branch: 'main'}), 403, 403],
  ]);
  assert.ok(JSON.stringify(await server.json('/pr/2.json')).includes(build), 'it is kept');

  // Repaired, broken and repaired again while it runs.
  const broken = async () => (await server.json('/readyz')).ci_providers?.error;
  write(folder, 'providers.yaml', 'buildkite: [');
  await eventually('it is noticed', broken);
  assert.equal((await ask('pipe-1')()).status, 200, 'the last good one stays in force');
  write(folder, 'providers.yaml', `buildkite:\n  org-1/old: ${ONE}\n`);
  await eventually('it is good again', async () => !(await broken()));
  assert.equal((await ask('old')()).status, 200);
  assert.equal((await ask('pipe-1')()).status, 403);
});

test('9: the mapping may lie on GitHub, where today’s variable names it', async (t) => {
  const file = 'pytorch/test-infra/config/ci_providers.yml';
  const map = (github, repository) =>
    github.files.set(file, {text: `providers:\n  buildkite:\n    repo_map:\n      o/p: ${repository}\n`});
  const {server, github, issuer, dispatched} = await relay(t, {
    issuers: (one) => one.buildkiteSettings,
    settings: 'allowlist_ttl_seconds: 1\n',
    env: {CI_PROVIDERS_URL: `https://github.com/${file.replace('infra/', 'infra/blob/main/')}`},
    prepare: (_, double) => map(double, ONE),
  });
  const delivery = await dispatched([ONE, TWO]);
  const call = (run_id) =>
    callback(
      server.url,
      issuer.token('x/y', {organization_id: 'o', pipeline_id: 'p'}),
      report(delivery, {run_id}),
    );
  assert.equal((await call('1')).status, 200);
  github.contentsScript.push({status: 500});
  await eventually('GitHub fails', () => github.contentsScript.length === 0);
  assert.equal((await call('2')).status, 200, 'the last good one stays in force');
  map(github, 'nobody/knows');
  await eventually('a later version counts', async () => (await call('3')).answer.status === 'ignored');
  assert.deepEqual(github.violations, []);
});

test('further issuers, each with keys of its own', async (t) => {
  const own = await new Issuer().start();
  t.after(() => own.stop());
  const {server, issuer, dispatched} = await relay(t, {
    issuers: (first) =>
      `${first.settings}  - {issuer: "${own.url}", keys: "${own.url}/jwks", identity_claim: project}\n`,
  });
  const delivery = await dispatched([ONE]);
  const call = (token, job_name) => callback(server.url, token, report(delivery, {job_name}));
  assert.equal((await call(issuer.token(ONE), 'a')).status, 200);
  assert.equal((await call(own.token('evil/other', {project: ONE}), 'b')).status, 200);
  assert.equal((await call(own.token(ONE), 'c')).status, 401, 'its claim is another');
  const forged = own.token(ONE, {project: ONE}, issuer.signing);
  assert.equal((await call(forged, 'd')).status, 401, 'the key of another issuer');
  // One that is away takes nothing from the other; its last good keys serve on.
  own.mode = 'close';
  assert.equal((await call(issuer.token(ONE), 'e')).status, 200);
  assert.equal((await call(own.token('x/y', {project: ONE}), 'f')).status, 200);
});

test('10: access, and bodies', async (t) => {
  const {server, issuer, dispatched} = await relay(t);
  const delivery = await dispatched([ONE]);
  const {url} = server;
  let run = 0;
  const ask = (spoil = () => {}, repository = ONE) => () => {
    const body = report(delivery, {run_id: String((run += 1))});
    spoil(body);
    return callback(url, issuer.token(repository), body);
  };
  const set = (name, value) => ask((body) => (body.workflow[name] = value));
  const unset = (name) => ask((body) => delete body.workflow[name]);
  const named = 'the field is named';
  const ours = (status, note) => [status, 400, note];
  await compare(t, [
    ['nobody knows it', ask(undefined, 'nobody/knows'), 200, 200],
    ['L1', ask(undefined, LEVELS.L1[0]), 200, 200],
    ['whatever its body', () => callback(url, issuer.token('nobody/knows'), '[]'), 200, 200],
    ['listed in other letter case', ask(undefined, ONE.toUpperCase()), 200, 200],
    ['no delivery id', ask((body) => delete body.delivery_id), 400, 400],
    ['no workflow', ask((body) => delete body.workflow), 400, 400],
    ['a workflow of text', ask((body) => (body.workflow = 'x')), 400, 400],
    ['no status', unset('status'), 400, 400],
    ['another status', set('status', 'queued'), 400, 400],
    ['no run id', unset('run_id'), 400, 400],
    ['run id null', set('run_id', null), 400, 400],
    ['a run id of words', set('run_id', 'words'), 500, 200, 'an id is text'],
    ['a run id of a list', set('run_id', [1]), ...ours(500, named)],
    ['no name', unset('name'), 400, 400],
    ['a name of a number', set('name', 7), ...ours(200, named)],
    ['no run attempt', unset('run_attempt'), 200, 200],
    ['run attempt null', set('run_attempt', null), 500, 200, 'as if it were missing'],
    ['a run attempt of words', set('run_attempt', 'second'), ...ours(500, named)],
    ['no job name', unset('job_name'), 200, 200],
    ['no check run id', unset('check_run_id'), 200, 200],
    ['no conclusion', unset('conclusion'), 200, 200],
    ['no payload', ask((body) => delete body.payload), 200, 200],
    ['a payload of text', ask((body) => (body.payload = 'x')), 500, 200, 'nothing is read from it'],
    ['no event type', ask((body) => delete body.event_type), 200, 200],
    ['an unknown event type', ask((body) => (body.event_type = 'weekly')), 200, 200],
    ['fields that nobody knows', ask((body) => (body.workflow.future = {kept: [1]})), 200, 200],
    ['2 MB', ask((body) => (body.payload = {pad: 'x'.repeat(2_000_000)})), 200, 200],
    ['a list', () => callback(url, issuer.token(ONE), '[]'), ...ours(500, named)],
    ['a number', () => callback(url, issuer.token(ONE), '7'), ...ours(500, named)],
    ['null', () => callback(url, issuer.token(ONE), 'null'), ...ours(500, named)],
  ]);
});

test('10: the rate limit', async (t) => {
  const {server, issuer, dispatched} = await relay(t, {env: {RATE_LIMIT_PER_MIN: '3'}});
  const delivery = await dispatched([ONE, TWO]);
  const call = (repository, body = report(delivery)) =>
    callback(server.url, issuer.token(repository), body);
  for (const body of [report(delivery), {}, report(delivery)]) {
    const {status} = await call(ONE, body);
    assert.ok(status === 200 || status === 400, 'counted, whatever the body');
  }
  let last = 60;
  for (let knock = 0; knock < 5; knock += 1) {
    const {status, answer, headers} = await call(ONE);
    assert.equal(status, 429);
    assert.ok(answer.detail.includes(ONE));
    const wait = Number(headers.get('retry-after'));
    assert.ok(wait >= 1 && wait <= last, `theirs says nothing; and knocking does not prolong it`);
    last = wait;
  }
  assert.equal((await call(TWO)).status, 200, 'the others are not affected');
  for (let n = 0; n < 5; n += 1)
    assert.equal((await call('nobody/knows')).status, 200, 'who is not listed is not counted');
});

test('11: the state machine', async (t) => {
  const {server, issuer, dispatched} = await relay(t);
  const delivery = await dispatched([ONE]);
  const call = (workflow, id = delivery, repository = ONE) =>
    callback(server.url, issuer.token(repository), report(id, {run_id: '77', ...workflow}));
  const started = {status: 'in_progress'};
  const ended = (conclusion, more = {}) => ({status: 'completed', conclusion, ...more});
  const effect = (what, ask) => async () => {
    const sent = await ask();
    assert.equal(sent.answer.effect, what, JSON.stringify(sent.answer));
    return sent;
  };
  const repeats = 'a call that got no answer may be made again';
  await compare(t, [
    ['no dispatch on record', () => call(started, 'no such delivery'), 400, 400],
    ['in progress', effect('advanced', () => call(started)), 200, 200],
    ['again', effect('duplicate', () => call({...started, started_at: 'later'})), 400, 200, repeats],
    ['completed', effect('advanced', () => call(ended('failure'))), 200, 200],
    ['again', effect('duplicate', () => call(ended('failure'))), 400, 200, repeats],
    ['with another conclusion', () => call(ended('success')), 400, 409, 'a contradiction'],
    ['in progress, late', effect('late', () => call(started)), 400, 200, 'calls overtake each other'],
    [
      'completed without in progress',
      effect('advanced', () => call(ended('success', {job_name: 'other'}))),
      400,
      200,
      'a lost start does not lose the result',
    ],
    ['another attempt', effect('advanced', () => call({...started, run_attempt: '2'})), 200, 200],
    ['another run', effect('advanced', () => call({...started, run_id: '78'})), 200, 200],
  ]);
  for (const job_name of ['test: cuda', 'a:b:12', '007', '1_0', '12', 'x / y', 'Tëst ✓', '試験']) {
    assert.equal((await call({...started, job_name})).status, 200, job_name);
    assert.equal((await call(ended('success', {job_name}))).answer.effect, 'advanced', job_name);
  }
  const twins = await Promise.all(
    Array.from({length: 20}, () => call({...started, job_name: 'twins'})),
  );
  assert.equal(twins.filter(({answer}) => answer.effect === 'advanced').length, 1, 'theirs: two');
  const closed = await dispatched([ONE], {action: 'closed'});
  assert.equal((await call(started, closed)).status, 200, 'of a closed pull request');

  const {commits} = await server.json('/pr/2.json');
  const jobs = commits.flatMap(({backends}) => backends.flatMap((backend) => backend.jobs));
  const job = jobs.find(({word}) => word.job_name === 'a:b:12');
  assert.deepEqual([job.state, job.established.concluded_by], ['passed', 'downstream']);
  assert.ok(job.established.queue_seconds >= 0 && job.established.execution_seconds >= 0);
});

test('14: nightly and periodic reports', async (t) => {
  const {server, github, issuer} = await relay(t);
  github.commits.add(COMMIT).add(OTHER);
  const nightly = (workflow = {}, {sha = COMMIT, type = 'nightly', ...more} = {}) => ({
    ...report(sha, {status: 'completed', run_id: '5', ...workflow}),
    event_type: type,
    payload: {repository: {full_name: 'pytorch/pytorch'}, head_sha: sha},
    ...more,
  });
  const ask = (body, repository = ONE) => () => callback(server.url, issuer.token(repository), body);
  const unset = (path, key) => {
    const body = nightly();
    delete (path ? body[path] : body)[key];
    return ask(body);
  };
  await compare(t, [
    ['completed', ask(nightly()), 200, 200],
    ['the same again', ask(nightly()), 200, 200],
    ['periodic', ask(nightly({run_id: '6'}, {type: 'periodic'})), 200, 200],
    ['of L4', ask(nightly(), LEVELS.L4[0]), 200, 200],
    ['of L1', ask(nightly(), LEVELS.L1[0]), 200, 200],
    ['in progress', ask(nightly({status: 'in_progress'})), 400, 400],
    ['another spelling', ask(nightly({}, {type: 'Nightly'})), 400, 400],
    ['no delivery id', unset('', 'delivery_id'), 400, 400],
    ['no run id', unset('workflow', 'run_id'), 400, 400],
    ['no name', unset('workflow', 'name'), 400, 400],
    ['a run id that is a UUID', ask(nightly({run_id: randomUUID()})), 500, 200, 'as on Buildkite'],
    [
      'an unknown commit',
      ask(nightly({}, {sha: 'f'.repeat(40)})),
      200,
      400,
      'the commit must be upstream’s',
    ],
    ['no commit at all', ask(nightly({}, {sha: 'hello world'})), 200, 400, 'as before'],
    [
      'another commit in its payload',
      ask(nightly({}, {payload: {head_sha: OTHER}})),
      200,
      400,
      'one of the two is wrong',
    ],
  ]);
  assert.equal(
    github.requests.filter(({path}) => path.endsWith(`/commits/${COMMIT}`)).length,
    1,
    'asked once a commit',
  );
  assert.equal(github.count('POST', /dispatches$|check-runs$/), 0, 'it yields no check run');

  // Later reports do not overwrite: they are attempts.
  const answers = [];
  for (const conclusion of ['failure', 'success', 'failure'])
    answers.push((await ask(nightly({run_id: '9', conclusion}, {sha: OTHER}))()).answer);
  assert.deepEqual(
    answers.map(({effect, run_attempt}) => [effect, run_attempt]),
    [
      ['advanced', undefined],
      ['advanced', 2],
      ['duplicate', undefined],
    ],
  );
  assert.ok(answers.every(({commit_verified}) => commit_verified === true));
  const {attempts} = await jobOf(server, OTHER);
  assert.deepEqual(
    attempts.map(({word}) => [word.run_attempt, word.conclusion]),
    [
      [2, 'success'],
      [1, 'failure'],
    ],
  );
  assert.deepEqual(github.violations, []);
});

test('14: while GitHub cannot be asked, a nightly report is taken and marked', async (t) => {
  const {server, github, issuer} = await relay(t);
  github.commits.add(COMMIT);
  github.commitMode = 502;
  const call = (sha, run_id) =>
    callback(server.url, issuer.token(ONE), {
      ...report(sha, {status: 'completed', run_id}),
      event_type: 'nightly',
    });
  const {status, answer} = await call(COMMIT, '1');
  assert.equal(status, 200);
  assert.equal(answer.commit_verified, false);
  const asked = github.count('GET', /commits/);
  for (let n = 0; n < 5; n += 1)
    assert.equal((await call(OTHER, String(n))).answer.commit_verified, false);
  assert.equal(github.count('GET', /commits/), asked, 'and it is not asked by everybody meanwhile');
  const job = await jobOf(server, COMMIT);
  assert.deepEqual([job.commit_verified, job.commit_missing], [false, false]);
  assert.deepEqual(github.violations, []);
});
