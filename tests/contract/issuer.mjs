// A stand-in for a CI's OIDC issuer: it has keys, serves them at /jwks, signs tokens, and can be out of reach.
import {generateKeyPairSync, randomUUID, sign} from 'node:crypto';
import {once} from 'node:events';
import {createServer} from 'node:http';

const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');

export const AUDIENCE = 'pytorch-cross-repo-ci-relay';

export class Issuer {
  // What /jwks does: 'serve', 'fail' (500), 'hang', or 'close' (the connection, without an answer).
  mode = 'serve';
  asked = 0;
  #hanging = new Set();

  constructor() {
    this.rotate();
  }

  // A new key takes the place of the one before; with `keep` both are served, and the new one signs.
  rotate({keep = false} = {}) {
    const {privateKey, publicKey} = generateKeyPairSync('rsa', {modulusLength: 2048});
    const kid = randomUUID();
    const jwk = {...publicKey.export({format: 'jwk'}), kid, alg: 'RS256', use: 'sig'};
    this.signing = {kid, privateKey};
    this.keys = [...(keep ? this.keys : []), jwk];
    return this.signing;
  }

  async start() {
    this.server = createServer((request, response) => {
      this.asked += 1;
      if (this.mode === 'hang') return this.#hanging.add(response);
      if (this.mode === 'close') return request.socket.destroy();
      if (this.mode === 'fail') return response.writeHead(500).end('not now');
      response.writeHead(200, {'content-type': 'application/json'});
      return response.end(JSON.stringify({keys: this.keys}));
    });
    this.server.listen(0, '127.0.0.1');
    await once(this.server, 'listening');
    this.url = `http://127.0.0.1:${this.server.address().port}`;
    return this;
  }

  async stop() {
    for (const response of this.#hanging) response.destroy();
    this.server.closeAllConnections();
    this.server.close();
    await once(this.server, 'close');
  }

  // The lines of a settings file that make a relay trust this issuer.
  get settings() {
    return `oidc_issuers:\n  - {issuer: "${this.url}", keys: "${this.url}/jwks"}\n`;
  }

  // The same for an issuer whose tokens are as Buildkite's.
  get buildkiteSettings() {
    return `oidc_issuers:\n  - {issuer: "${this.url}", keys: "${this.url}/jwks", kind: buildkite}\n`;
  }

  // A token of a job of `repository`; `claims` replace and add, `signing` is another key than the current one.
  token(repository, claims = {}, signing = this.signing) {
    const now = Math.floor(Date.now() / 1000);
    const head = encode({alg: 'RS256', typ: 'JWT', kid: signing.kid});
    const body = encode({
      iss: this.url,
      aud: AUDIENCE,
      sub: `repo:${repository}:ref:refs/heads/main`,
      repository,
      iat: now,
      nbf: now,
      exp: now + 300,
      ...claims,
    });
    const signature = sign('RSA-SHA256', Buffer.from(`${head}.${body}`), signing.privateKey);
    return `${head}.${body}.${signature.toString('base64url')}`;
  }
}

// A callback's body, as the action sends it.
export function report(delivery, workflow = {}) {
  const {status = 'in_progress', ...more} = workflow;
  return {
    event_type: 'pull_request',
    delivery_id: delivery,
    payload: {},
    workflow: {
      schema_version: '1',
      status,
      conclusion: status === 'completed' ? 'success' : null,
      name: 'CI',
      url: 'https://github.com/org/backend/actions/runs/1',
      run_id: '1',
      run_attempt: '1',
      job_name: 'test',
      ...more,
    },
  };
}

// Returns {status, answer, headers}.
export async function callback(url, token, body) {
  const response = await fetch(new URL('/github/callback', url), {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(token === undefined ? {} : {authorization: `Bearer ${token}`}),
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  const text = await response.text();
  let answer = text;
  try {
    answer = JSON.parse(text);
  } catch {
    // not JSON: shown as it is
  }
  return {status: response.status, answer, headers: response.headers};
}
