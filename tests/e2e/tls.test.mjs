// The server spoken to in TLS, behind a proxy, with secrets and certificates that change while it runs, and as a shadow.
import assert from 'node:assert/strict';
import {spawnSync} from 'node:child_process';
import {createHmac, generateKeyPairSync} from 'node:crypto';
import {copyFileSync, readFileSync, writeFileSync} from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import {join} from 'node:path';
import {test} from 'node:test';
import tls from 'node:tls';
import {GitHubDouble} from '../contract/github.mjs';
import {
  dispatched,
  eventually,
  githubSettings,
  pullRequest,
  recordingSettings,
  run,
  secret,
  send,
  serve,
  temporaryFolder,
  write,
} from './harness.mjs';

// A self-made certificate for 127.0.0.1.
function certificate(folder, name) {
  const cert = join(folder, `${name}.crt`);
  const key = join(folder, `${name}.key`);
  const {status, stderr} = spawnSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
      ...['-days', '2', '-subj', `/CN=${name}`, '-addext', 'subjectAltName=IP:127.0.0.1'],
      ...['-keyout', key, '-out', cert],
    ],
    {encoding: 'utf8'},
  );
  assert.equal(status, 0, stderr);
  return {cert, key};
}

// Any call, over TLS where `ca` is given. Returns {status, headers, text, issuer}.
function call(url, {ca, method = 'GET', headers = {}, body, agent} = {}) {
  return new Promise((resolve, reject) => {
    const client = ca ? https : http;
    const request = client.request(url, {method, headers, ca, agent}, async (response) => {
      const name = ca && response.socket.getPeerCertificate().subject?.CN;
      let text = '';
      for await (const chunk of response) text += chunk;
      resolve({status: response.statusCode, headers: response.headers, text, name});
    });
    request.on('error', reject);
    request.end(body);
  });
}

async function withTls(t) {
  const folder = temporaryFolder(t);
  const files = certificate(folder, 'first');
  const ca = [readFileSync(files.cert)];
  const server = await serve(t, {
    folder,
    settings: recordingSettings(folder, {
      more: `tls_certificate: ${files.cert}\ntls_key: ${files.key}\n`,
    }),
  });
  return {folder, files, ca, server};
}

test('TLS: pages, large bodies, several requests on one connection', async (t) => {
  const {server, ca} = await withTls(t);
  assert.match(server.url, /^https:/);
  const agent = new https.Agent({keepAlive: true, maxSockets: 1, ca});
  t.after(() => agent.destroy());
  for (const path of ['/', '/ops', '/healthz', '/ops.json']) {
    const {status} = await call(new URL(path, server.url), {ca, agent});
    assert.equal(status, 200, path);
  }
  // 6 MiB up, refused for its signature only after it was read.
  const refused = await call(new URL('/github/webhook', server.url), {
    ca,
    agent,
    method: 'POST',
    headers: {'x-github-event': 'push', 'x-hub-signature-256': `sha256=${'0'.repeat(64)}`},
    body: Buffer.alloc(6 << 20, 'x'),
  });
  assert.equal(refused.status, 401);
  // A page of some size comes back whole.
  const {text, headers} = await call(new URL('/help/metrics', server.url), {ca, agent});
  assert.equal(Buffer.byteLength(text), Number(headers['content-length']));
});

test('TLS: old protocols and plain HTTP are refused, and harm nobody', async (t) => {
  const {server, ca} = await withTls(t);
  const {port} = new URL(server.url);
  await assert.rejects(
    new Promise((resolve, reject) => {
      const socket = tls.connect({
        ...{port: Number(port), host: '127.0.0.1', ca, maxVersion: 'TLSv1.1', minVersion: 'TLSv1'},
        ciphers: 'ALL@SECLEVEL=0',
      });
      socket.on('secureConnect', resolve).on('error', reject);
    }),
  );
  await assert.rejects(call(`http://127.0.0.1:${port}/`));
  for (const version of ['TLSv1.2', 'TLSv1.3']) {
    const protocol = await new Promise((resolve, reject) => {
      const socket = tls.connect(
        {port: Number(port), host: '127.0.0.1', ca, minVersion: version, maxVersion: version},
        () => {
          resolve(socket.getProtocol());
          socket.destroy();
        },
      );
      socket.on('error', reject);
    });
    assert.equal(protocol, version);
  }
  assert.equal((await call(new URL('/healthz', server.url), {ca})).status, 200);
});

test('TLS: an event goes through to the job', async (t) => {
  const {server, ca, folder} = await withTls(t);
  const body = JSON.stringify(pullRequest());
  const {status} = await call(new URL('/github/webhook', server.url), {
    ca,
    method: 'POST',
    headers: {
      'x-github-event': 'pull_request',
      'x-github-delivery': 'over-tls',
      'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
    },
    body,
  });
  assert.equal(status, 202);
  await eventually('it is dispatched', () => dispatched(folder).includes('over-tls'));
});

test('TLS: SIGHUP takes a new certificate; a broken one changes nothing', async (t) => {
  const {server, ca, files, folder} = await withTls(t);
  const name = async () => (await call(new URL('/healthz', server.url), {ca, agent: false})).name;
  assert.equal(await name(), 'first');
  const second = certificate(folder, 'second');
  ca.push(readFileSync(second.cert));
  copyFileSync(second.cert, files.cert);
  server.child.kill('SIGHUP'); // certificate and key do not belong together yet
  await eventually('it is said', () => /not_reloaded.*tls_key/.test(server.log));
  assert.equal(await name(), 'first');
  copyFileSync(second.key, files.key);
  server.child.kill('SIGHUP');
  await eventually('it is said', () => / reloaded/.test(server.log));
  assert.equal(await name(), 'second');
  assert.deepEqual(await server.stop(), {code: 0, signal: null});
});

test('SIGHUP: with an App key that cannot be used, the certificate stays as it was', async (t) => {
  const github = await new GitHubDouble({repositories: ['org-a/backend']}).start();
  t.after(() => github.stop());
  const folder = temporaryFolder(t);
  const first = certificate(folder, 'first');
  const second = certificate(folder, 'second');
  const ca = [first, second].map(({cert}) => readFileSync(cert));
  const {settings, env} = githubSettings(folder, {
    github,
    repositories: ['org-a/backend'],
    more: `tls_certificate: ${first.cert}\ntls_key: ${first.key}\n`,
  });
  const server = await serve(t, {folder, settings, env, local: false});
  const name = async () => (await call(new URL('/healthz', server.url), {ca, agent: false})).name;
  const pem = join(folder, 'app.pem');
  const good = readFileSync(pem);
  writeFileSync(pem, '-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n');
  copyFileSync(second.cert, first.cert);
  copyFileSync(second.key, first.key);
  server.child.kill('SIGHUP');
  await eventually('it is said', () => /not_reloaded.*github_app_private_key/.test(server.log));
  assert.equal(await name(), 'first');
  writeFileSync(pem, good);
  server.child.kill('SIGHUP');
  await eventually('it is said', () => / reloaded/.test(server.log));
  assert.equal(await name(), 'second');
});

test('a certificate that cannot be used stops the start, by its name', (t) => {
  const folder = temporaryFolder(t);
  const {cert, key} = certificate(folder, 'one');
  const other = certificate(folder, 'other');
  const empty = write(folder, 'empty.pem', '');
  for (const [more, why] of [
    [`tls_certificate: ${cert}\n`, /tls_key: not set/],
    [`tls_key: ${key}\n`, /tls_certificate: not set/],
    [`tls_certificate: ${empty}\ntls_key: ${key}\n`, /tls_certificate: .*empty\.pem/],
    [`tls_certificate: ${cert}\ntls_key: ${other.key}\n`, /tls_key: .*other\.key/],
    [`tls_certificate: ${cert}\ntls_key: ${join(folder, 'none')}\n`, /tls_key: .*none/],
    [`trusted_proxies: 10.0.0.0/99\n`, /trusted_proxies: .*10\.0\.0\.0\/99/],
    [`retention_bodies_days: -1\n`, /retention_bodies_days/],
  ]) {
    const settings = write(folder, 'settings.yaml', recordingSettings(folder, {more}));
    const {code, err} = run(
      ['serve', '--local', '--listen', '127.0.0.1:0', '--settings', settings, '--db', join(folder, 'x.db')],
      {timeout: 60_000},
    );
    assert.equal(code, 3, `${more}${err}`);
    assert.match(err, why);
  }
});

test('who called stands in the audit log: behind a trusted proxy the caller, else the peer', async (t) => {
  for (const [more, headers, origin] of [
    ['', {'x-forwarded-for': '203.0.113.9'}, '127.0.0.1'],
    ['trusted_proxies: [127.0.0.0/8]\n', {'x-forwarded-for': '203.0.113.9'}, '203.0.113.9'],
    // What stands before the first address that is not trusted is the caller's own invention.
    [
      'trusted_proxies: [127.0.0.1, 10.0.0.0/8]\n',
      {'x-forwarded-for': '198.51.100.1, 203.0.113.9, 10.1.2.3'},
      '203.0.113.9',
    ],
    ['trusted_proxies: 192.0.2.0/24\n', {'x-forwarded-for': '203.0.113.9'}, '127.0.0.1'],
  ]) {
    const folder = temporaryFolder(t);
    const server = await serve(t, {folder, settings: recordingSettings(folder, {more})});
    const token = readFileSync(join(folder, 'state/admin-token'), 'utf8').trim();
    const {status} = await call(new URL('/ops/replay', server.url), {
      method: 'POST',
      headers: {
        ...headers,
        authorization: `Bearer ${token}`,
        'content-type': 'application/x-www-form-urlencoded',
      },
      body: 'all_dead=1',
    });
    assert.equal(status, 200);
    const authorization = `Bearer ${token}`;
    const {audit} = await server.json('/ops.json', {headers: {authorization}});
    assert.equal(audit[0].origin, origin, JSON.stringify(headers));
    await server.stop();
  }
});

test('behind a proxy that speaks TLS, a form must come from the https page', async (t) => {
  const folder = temporaryFolder(t);
  const server = await serve(t, {
    folder,
    settings: recordingSettings(folder, {more: 'trusted_proxies: 127.0.0.1\n'}),
  });
  const token = readFileSync(join(folder, 'state/admin-token'), 'utf8').trim();
  for (const [origin, expected] of [
    ['https://relay.example', 303],
    ['http://relay.example', 403],
  ]) {
    const {status} = await call(new URL('/ops/replay', server.url), {
      method: 'POST',
      headers: {
        host: 'relay.example',
        origin,
        'x-forwarded-proto': 'https',
        'content-type': 'application/x-www-form-urlencoded',
      },
      body: new URLSearchParams({token, all_dead: '1'}).toString(),
    });
    assert.equal(status, expected, origin);
  }
});

test('webhook secret and App key change without a gap', async (t) => {
  const github = await new GitHubDouble({repositories: ['org-a/backend']}).start();
  t.after(() => github.stop());
  const folder = temporaryFolder(t);
  const {settings} = githubSettings(folder, {github, repositories: ['org-a/backend']});
  const secrets = write(folder, 'secrets', 'old secret\n', 0o600);
  const server = await serve(t, {
    folder,
    settings: `${settings}webhook_secret_file: ${secrets}\n`,
    local: false,
  });
  const accepted = async (using) => {
    const {status} = await send(server.url, {body: pullRequest(), secret: using});
    return status;
  };
  let reloads = 0;
  const reload = async () => {
    reloads += 1;
    server.child.kill('SIGHUP');
    await eventually('it is reloaded', () => server.log.split(' reloaded').length === reloads + 1);
  };
  assert.equal(await accepted('old secret'), 202);
  assert.equal(await accepted('new secret'), 401);
  writeFileSync(secrets, 'new secret\nold secret\n');
  await reload();
  assert.equal(await accepted('old secret'), 202);
  assert.equal(await accepted('new secret'), 202);
  writeFileSync(secrets, 'new secret\n');
  await reload();
  assert.equal(await accepted('old secret'), 401);
  assert.equal(await accepted('new secret'), 202);

  const arrived = () => github.accepted('org-a/backend').length;
  await eventually('all have arrived', () => arrived() === 4);
  // GitHub knows another key from now on, and all tokens have ended.
  const {privateKey, publicKey} = generateKeyPairSync('rsa', {modulusLength: 2048});
  github.publicKey = publicKey;
  github.expireTokens();
  writeFileSync(join(folder, 'app.pem'), privateKey.export({type: 'pkcs1', format: 'pem'}));
  await reload();
  assert.equal(await accepted('new secret'), 202);
  await eventually('it is signed with the new key', () => arrived() === 5);
  for (const word of ['old secret', 'new secret']) assert.ok(!server.log.includes(word));
});

test('a shadow receives everything, sends nothing, and shows what it would have sent', async (t) => {
  const github = await new GitHubDouble({repositories: ['org-a/backend', 'org-b/backend']}).start();
  t.after(() => github.stop());
  const folder = temporaryFolder(t);
  const {settings, env} = githubSettings(folder, {
    github,
    repositories: ['org-a/backend', 'org-b/backend'],
  });
  const server = await serve(t, {folder, settings, env, local: false, args: ['--shadow']});
  const {status, delivery} = await send(server.url, {body: pullRequest(), secret});
  assert.equal(status, 202);
  const ops = await eventually('both are shown', async () => {
    const found = await server.json('/ops.json');
    return found.kept_back.length === 2 && found;
  });
  assert.equal(ops.process.shadow, true);
  assert.deepEqual(ops.kept_back.map(({repo}) => repo).sort(), ['org-a/backend', 'org-b/backend']);
  for (const {what, delivery_id} of ops.kept_back) {
    assert.equal(delivery_id, delivery);
    assert.match(
      what,
      /^POST \/repos\/org-[ab]\/backend\/dispatches, event_type pull_request, client_payload of \d+ bytes/,
    );
  }
  assert.equal(ops.outbox.withdrawn.count, 2);
  assert.match(server.log, new RegExp(`shadow.dispatch delivery=${delivery} repo=org-a/backend`));
  const page = await (await fetch(new URL('/ops', server.url))).text();
  assert.match(page, /runs as a shadow/);
  assert.match(page, /Would have been sent/);
  await server.stop();
  assert.deepEqual(github.requests, []);
});

test('a callback in flight when the server is told to end gets its answer', async (t) => {
  const folder = temporaryFolder(t);
  const server = await serve(t, {folder, settings: recordingSettings(folder)});
  const url = new URL('/github/callback', server.url);
  // Its head has arrived and half of its body; the rest follows only after SIGTERM was taken.
  const answer = new Promise((resolve, reject) => {
    const request = http.request(
      url,
      {method: 'POST', headers: {'content-length': 4, 'content-type': 'application/json'}},
      (response) => {
        response.resume().on('end', () => resolve(response.statusCode));
      },
    );
    request.on('error', reject);
    request.write('{}');
    request.on('socket', (socket) =>
      socket.once('connect', async () => {
        try {
          // A second call is answered: so the first one's bytes, sent before, are there.
          await call(new URL('/healthz', server.url));
          server.child.kill('SIGTERM');
          await eventually('it stops', () => / stopping/.test(server.log));
          request.end('  ');
        } catch (error) {
          reject(error);
        }
      }),
    );
  });
  assert.equal(await answer, 401);
  assert.deepEqual(await server.ended, {code: 0, signal: null});
});
