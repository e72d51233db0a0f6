// The double itself: it must notice what GitHub would, or the tests that use it prove nothing.
import assert from 'node:assert/strict';
import {sign} from 'node:crypto';
import test from 'node:test';
import {GitHubDouble} from './github.mjs';

const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
function jwt(double, {iss = double.appId, lifetime = 540} = {}) {
  const iat = Math.floor(Date.now() / 1000) - 60;
  const text = `${encode({alg: 'RS256', typ: 'JWT'})}.${encode({iss, iat, exp: iat + 60 + lifetime})}`;
  return `${text}.${sign('RSA-SHA256', Buffer.from(text), double.privateKeyPem).toString('base64url')}`;
}
async function call(double, method, path, token, body) {
  const response = await fetch(double.url + path, {
    method,
    headers: {authorization: `Bearer ${token}`, 'user-agent': 'test'},
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  return {status: response.status, body: text ? JSON.parse(text) : undefined};
}

test('the way through: installation, token, dispatch', async (t) => {
  const double = await new GitHubDouble({repositories: ['Org/Repo']}).start();
  t.after(() => double.stop());
  const app = jwt(double);
  const installation = await call(double, 'GET', '/repos/org/repo/installation', app);
  assert.equal(installation.status, 200);
  const token = await call(
    double,
    'POST',
    `/app/installations/${installation.body.id}/access_tokens`,
    app,
  );
  assert.equal(token.status, 201);
  const send = (payload) =>
    call(double, 'POST', '/repos/org/repo/dispatches', token.body.token, {
      event_type: 'push',
      client_payload: payload,
    });
  assert.equal((await send({a: 1})).status, 204);
  assert.equal(double.accepted('org/repo').length, 1);
  assert.equal((await send({text: 'x'.repeat(70_000)})).status, 422);
  assert.deepEqual(double.violations, []);
  double.expireTokens();
  assert.equal((await send({a: 1})).status, 401);
  double.script('org/repo', [{status: 502, accepts: true}]);
  const renewed = await call(
    double,
    'POST',
    `/app/installations/${installation.body.id}/access_tokens`,
    app,
  );
  assert.equal(
    (
      await call(double, 'POST', '/repos/org/repo/dispatches', renewed.body.token, {
        event_type: 'push',
      })
    ).status,
    502,
  );
  assert.equal(double.accepted('org/repo').length, 2);
});

for (const [what, act, expected] of [
  [
    'an operation GitHub does not have',
    (d) => call(d, 'GET', '/repos/o/r/dispatches', 'x'),
    /no such operation/,
  ],
  [
    'a body without its required field',
    (d) => call(d, 'POST', '/repos/o/r/dispatches', 'x', {client_payload: {}}),
    /event_type/,
  ],
  [
    'eleven properties in client_payload',
    (d) =>
      call(d, 'POST', '/repos/o/r/dispatches', 'x', {
        event_type: 'e',
        client_payload: Object.fromEntries([...'abcdefghijk'].map((k) => [k, 1])),
      }),
    /10/,
  ],
  [
    'a check run without its commit',
    (d) => call(d, 'POST', '/repos/o/r/check-runs', 'x', {name: 'n', status: 'queued'}),
    /head_sha/,
  ],
  [
    'a conclusion GitHub does not take',
    (d) =>
      call(d, 'POST', '/repos/o/r/check-runs', 'x', {
        name: 'n',
        head_sha: 'a',
        status: 'completed',
        conclusion: 'splendid',
      }),
    /conclusion/,
  ],
  [
    'a summary beyond the limit',
    (d) =>
      call(d, 'POST', '/repos/o/r/check-runs', 'x', {
        name: 'n',
        head_sha: 'a',
        status: 'queued',
        output: {title: 't', summary: 'x'.repeat(70_000)},
      }),
    /65535/,
  ],
  [
    'a run that is no number',
    (d) => call(d, 'POST', '/repos/o/r/actions/runs/abc/rerun', 'x'),
    /run_id/,
  ],
  [
    'an App token that lives too long',
    (d) => call(d, 'GET', '/repos/o/r/installation', jwt(d, {lifetime: 3600})),
    /at most 600/,
  ],
]) {
  test(`a violation is noticed: ${what}`, async (t) => {
    const double = await new GitHubDouble({repositories: ['o/r']}).start();
    t.after(() => double.stop());
    await act(double);
    assert.match(double.violations.join('\n'), expected);
  });
}
