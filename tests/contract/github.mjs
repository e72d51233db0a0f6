// A stand-in for GitHub's REST API that keeps state, and holds both sides to GitHub's own OpenAPI description: a request
// that GitHub's description does not allow is a violation, and so is an answer of this double.
import Ajv from 'ajv';
import addFormats from 'ajv-formats';
import {createHash, createPublicKey, generateKeyPairSync, randomBytes, verify} from 'node:crypto';
import {once} from 'node:events';
import {createServer} from 'node:http';
import {createRequire} from 'node:module';

const description = createRequire(import.meta.url)(
  '@octokit/openapi/generated/api.github.com.json',
);
const ajv = new Ajv({strict: false, allErrors: true});
addFormats(ajv);

const OPERATIONS = [
  ['GET', '/repos/{owner}/{repo}/installation', 'installation'],
  ['POST', '/app/installations/{installation_id}/access_tokens', 'accessToken'],
  ['POST', '/repos/{owner}/{repo}/dispatches', 'dispatch'],
  ['GET', '/repos/{owner}/{repo}/commits/{ref}', 'commit'],
  ['POST', '/repos/{owner}/{repo}/check-runs', 'createCheckRun'],
  ['GET', '/repos/{owner}/{repo}/check-suites/{check_suite_id}/check-runs', 'suiteCheckRuns'],
  ['POST', '/repos/{owner}/{repo}/actions/runs/{run_id}/rerun-failed-jobs', 'rerun'],
  ['POST', '/repos/{owner}/{repo}/actions/runs/{run_id}/rerun', 'rerun'],
  ['GET', '/repos/{owner}/{repo}/contents/{path}', 'contents'],
  ['GET', '/repos/{owner}/{repo}/pulls/{pull_number}/files', 'files'],
].map(([method, path, handler]) => ({
  method,
  path,
  handler,
  // A file's path is the one parameter with slashes in it.
  pattern: new RegExp(
    `^${path.replace(/\{(\w+)\}/g, (_, name) => `(?<${name}>${name === 'path' ? '.+' : '[^/]+'})`)}$`,
  ),
  operation: description.paths[path][method.toLowerCase()],
}));

// The schema alone with the definitions it needs, and OpenAPI 3.0's `nullable` put as JSON Schema says it.
function standalone(schema) {
  const definitions = {};
  const copy = (node) => {
    if (Array.isArray(node)) return node.map(copy);
    if (node === null || typeof node !== 'object') return node;
    if (typeof node.$ref === 'string') {
      const name = node.$ref.slice(2).replaceAll('/', '.');
      if (!(name in definitions)) {
        definitions[name] = {};
        Object.assign(definitions[name], copy(resolve(node)));
      }
      return {$ref: `#/definitions/${name}`};
    }
    const {nullable, example, examples, ...rest} = node;
    const plain = Object.fromEntries(
      Object.entries(rest).map(([key, value]) => [key, copy(value)]),
    );
    return nullable === true ? {anyOf: [plain, {type: 'null'}]} : plain;
  };
  return {...copy(schema), definitions};
}

const validators = new Map();
function complaints(schema, value) {
  if (!validators.has(schema)) validators.set(schema, ajv.compile(standalone(schema)));
  const validate = validators.get(schema);
  return validate(value) ? [] : validate.errors.map((e) => `${e.instancePath || '/'} ${e.message}`);
}

function resolve(node) {
  return node?.$ref
    ? node.$ref
        .slice(2)
        .split('/')
        .reduce((at, key) => at[key], description)
    : node;
}

export class GitHubDouble {
  constructor({appId = '4711', repositories = [], tokenLifetimeSeconds = 3600} = {}) {
    this.appId = appId;
    this.tokenLifetimeSeconds = tokenLifetimeSeconds;
    const {privateKey, publicKey} = generateKeyPairSync('rsa', {modulusLength: 2048});
    this.privateKeyPem = privateKey.export({type: 'pkcs1', format: 'pem'});
    this.publicKey = createPublicKey(publicKey.export({type: 'spki', format: 'pem'}));
    // By lower-case name: {id: installation, script: what the next calls that change something are answered,
    // accepted: dispatches, checkRuns, reruns: of its runs, running: those that cannot be started again}
    this.repositories = new Map(
      repositories.map((name, index) => [
        name.toLowerCase(),
        {id: 100 + index, script: [], accepted: [], checkRuns: [], reruns: [], running: new Set()},
      ]),
    );
    this.suites = new Map(); // id -> check runs
    this.files = new Map(); // "owner/repo/path" -> {text, ref}: public ones, of any repository
    this.changed = new Map(); // pull request's number -> names of its files, or a status to answer
    this.contentsScript = []; // what the next reads of files are answered, as for `script`
    this.tokens = new Map(); // token -> {installation, expires}
    this.commits = new Set(); // shas, of every repository
    this.commitMode = 'serve'; // or a status, or 'hang'
    this.requests = []; // {method, path, status, at}
    this.violations = [];
    this.hanging = new Set();
  }

  async start() {
    this.server = createServer((request, response) => this.#serve(request, response));
    this.server.listen(0, '127.0.0.1');
    await once(this.server, 'listening');
    this.url = `http://127.0.0.1:${this.server.address().port}`;
    return this;
  }

  async stop() {
    for (const response of this.hanging) response.destroy();
    this.server.closeAllConnections();
    this.server.close();
    await once(this.server, 'close');
  }

  // The answers to the next dispatches, check runs and re-runs of a repository, in order; afterwards each succeeds. An
  // answer is {status, headers?, accepts?} (accepts: GitHub acts on it all the same), 'hang', or {close: true, accepts?}:
  // the connection ends without one.
  script(repository, answers) {
    this.repositories.get(repository.toLowerCase()).script.push(...answers);
  }

  accepted(repository) {
    return this.repositories.get(repository.toLowerCase()).accepted;
  }

  checkRuns(repository) {
    return this.repositories.get(repository.toLowerCase()).checkRuns;
  }

  reruns(repository) {
    return this.repositories.get(repository.toLowerCase()).reruns;
  }

  // As when the hour of every installation token is over.
  expireTokens() {
    for (const token of this.tokens.values()) token.expires = 0;
  }

  count(method, pattern) {
    return this.requests.filter((r) => r.method === method && pattern.test(r.path)).length;
  }

  async #serve(request, response) {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const path = new URL(request.url, 'http://x').pathname;
    const found = OPERATIONS.find((o) => o.method === request.method && o.pattern.test(path));
    const violation = (what) => this.violations.push(`${request.method} ${path}: ${what}`);
    if (!found) {
      violation('GitHub knows no such operation, or this double does not play it');
      return this.#answer(request, response, null, {status: 404, body: {message: 'Not Found'}});
    }
    const parameters = Object.fromEntries(
      Object.entries(path.match(found.pattern).groups).map(([k, v]) => [k, decodeURIComponent(v)]),
    );
    for (const parameter of (found.operation.parameters ?? []).map(resolve)) {
      if (parameter.in !== 'path') continue;
      const integer = parameter.schema.type === 'integer';
      const value = parameters[parameter.name];
      for (const what of complaints(parameter.schema, integer ? Number(value) : value)) {
        violation(`${parameter.name}: ${what}`);
      }
    }
    if (!/^[\x20-\x7e]+$/.test(request.headers['user-agent'] ?? ''))
      violation('no User-Agent: GitHub refuses that');
    let body;
    const text = Buffer.concat(chunks).toString('utf8');
    const schema = found.operation.requestBody?.content?.['application/json']?.schema;
    if (text !== '') {
      try {
        body = JSON.parse(text);
      } catch (error) {
        violation(`the body is not JSON: ${error.message}`);
      }
      if (schema === undefined) violation('has a body where GitHub takes none');
      else for (const what of complaints(schema, body)) violation(`body ${what}`);
    } else if (found.operation.requestBody?.required) {
      violation('has no body');
    }
    const reply = this[`_${found.handler}`]({parameters, body, text, request, violation});
    return this.#answer(request, response, found, reply);
  }

  #answer(request, response, found, reply) {
    const path = new URL(request.url, 'http://x').pathname;
    this.requests.push({
      method: request.method,
      path,
      status: reply === 'hang' ? 'hang' : reply.status,
      at: Date.now(),
    });
    if (reply === 'hang') {
      this.hanging.add(response);
      return;
    }
    if (reply.close) {
      response.destroy();
      return;
    }
    const described = resolve(found?.operation.responses[String(reply.status)]);
    // GitHub's description leaves out what any call may be answered: rate limits and its own failures.
    if (found && !described && ![401, 403, 429, 500, 502, 503].includes(reply.status)) {
      this.violations.push(`the double answered ${reply.status} to ${found.method} ${found.path}`);
    }
    const schema = described?.content?.['application/json']?.schema;
    if (schema && reply.raw === undefined) {
      for (const what of complaints(schema, reply.body)) {
        this.violations.push(
          `the double's answer ${reply.status} to ${found.method} ${found.path}: ${what}`,
        );
      }
    }
    const text = reply.raw ?? (reply.body === undefined ? '' : JSON.stringify(reply.body));
    response.writeHead(reply.status, {
      ...(text ? {'content-type': 'application/json; charset=utf-8'} : {}),
      ...reply.headers,
    });
    response.end(text);
  }

  #isApp(request, violation) {
    const [scheme, token] = (request.headers.authorization ?? '').split(' ');
    const [head, claims, signature] = (token ?? '').split('.');
    if (scheme?.toLowerCase() !== 'bearer' || !signature) return false;
    const decode = (part) => JSON.parse(Buffer.from(part, 'base64url').toString());
    if (decode(head).alg !== 'RS256') return false;
    if (
      !verify(
        'RSA-SHA256',
        Buffer.from(`${head}.${claims}`),
        this.publicKey,
        Buffer.from(signature, 'base64url'),
      )
    ) {
      return false;
    }
    const {iss, iat, exp} = decode(claims);
    const now = Date.now() / 1000;
    if (String(iss) !== this.appId) return false;
    if (exp - iat > 660 || exp > now + 600) {
      violation(`the App's token lives for ${exp - iat} s: GitHub takes at most 600 from now`);
      return false;
    }
    return iat <= now && exp > now;
  }

  _installation({parameters, request, violation}) {
    if (!this.#isApp(request, violation)) {
      return {status: 401, body: {message: 'A JSON web token could not be decoded'}};
    }
    const repository = this.repositories.get(
      `${parameters.owner}/${parameters.repo}`.toLowerCase(),
    );
    if (!repository)
      return {
        status: 404,
        body: {message: 'Not Found', documentation_url: 'https://docs.github.com/rest'},
      };
    const example = structuredClone(description.components.examples.installation.value);
    return {status: 200, body: {...example, id: repository.id, app_id: Number(this.appId)}};
  }

  _accessToken({parameters, request, violation}) {
    if (!this.#isApp(request, violation)) {
      return {status: 401, body: {message: 'A JSON web token could not be decoded'}};
    }
    const id = Number(parameters.installation_id);
    if (![...this.repositories.values()].some((repository) => repository.id === id)) {
      return {status: 404, body: {message: 'Not Found'}};
    }
    const token = `ghs_${randomBytes(18).toString('hex')}`;
    const expires = Date.now() + this.tokenLifetimeSeconds * 1000;
    this.tokens.set(token, {installation: id, expires});
    return {
      status: 201,
      body: {
        token,
        expires_at: new Date(expires).toISOString().replace(/\.\d+/, ''),
        permissions: {contents: 'write', metadata: 'read'},
        repository_selection: 'selected',
      },
    };
  }

  // The repository of a call by an installation, or the answer that refuses it.
  #granted({parameters, request}) {
    const repository = this.repositories.get(
      `${parameters.owner}/${parameters.repo}`.toLowerCase(),
    );
    const token = (request.headers.authorization ?? '').split(' ')[1];
    const grant = this.tokens.get(token);
    if (!grant || grant.expires <= Date.now())
      return {refusal: {status: 401, body: {message: 'Bad credentials'}}};
    if (!repository || repository.id !== grant.installation)
      return {refusal: {status: 404, body: {message: 'Not Found'}}};
    return {repository};
  }

  // What a test has scripted for the next call, if anything; `accept` is what GitHub would do.
  #scripted(repository, accept) {
    const scripted = repository.script.shift();
    if (scripted === 'hang' || !scripted) return scripted;
    if (scripted.accepts) accept();
    if (scripted.close) return {close: true, status: 'close'};
    const {status, headers} = scripted;
    return {
      status,
      headers,
      body:
        status === 204
          ? undefined
          : {
              message: scripted.message ?? `scripted ${status}`,
              documentation_url: 'https://docs.github.com/rest',
            },
    };
  }

  _createCheckRun({parameters, body, request, violation}) {
    const {repository, refusal} = this.#granted({parameters, request});
    if (refusal) return refusal;
    for (const [name, text] of Object.entries(body?.output ?? {}))
      if (Buffer.byteLength(text) > 65535) violation(`output.${name} is longer than 65535 bytes`);
    if ((body?.status === 'completed') !== (body?.conclusion !== undefined))
      violation('a conclusion is of what is completed, and of that alone');
    const accept = () => repository.checkRuns.push({...body, at: Date.now()});
    const scripted = this.#scripted(repository, accept);
    if (scripted) return scripted;
    accept();
    const example = structuredClone(
      description.components.examples['check-run-example-of-in-progress-conclusion'].value,
    );
    return {
      status: 201,
      body: {
        ...example,
        id: repository.checkRuns.length,
        name: body.name,
        head_sha: body.head_sha,
        external_id: body.external_id ?? '',
        status: body.status,
        conclusion: body.conclusion ?? null,
      },
    };
  }

  _suiteCheckRuns({parameters, request, violation}) {
    const {refusal} = this.#granted({parameters, request});
    if (refusal) return refusal;
    const query = new URL(request.url, 'http://x').searchParams;
    const perPage = Number(query.get('per_page') ?? 30);
    if (!(perPage >= 1 && perPage <= 100)) violation(`per_page is ${perPage}`);
    const page = Number(query.get('page') ?? 1);
    const all = this.suites.get(Number(parameters.check_suite_id));
    if (!all) return {status: 404, body: {message: 'Not Found'}};
    const example = description.components.examples['check-run-example-of-in-progress-conclusion'];
    return {
      status: 200,
      body: {
        total_count: all.length,
        check_runs: all
          .slice((page - 1) * perPage, page * perPage)
          .map((run, index) => ({...structuredClone(example.value), id: index + 1, ...run})),
      },
    };
  }

  _rerun({parameters, request}) {
    const {repository, refusal} = this.#granted({parameters, request});
    if (refusal) return refusal;
    const run = parameters.run_id;
    const failedOnly = request.url.endsWith('/rerun-failed-jobs');
    const accept = () => repository.reruns.push({run, failedOnly});
    const scripted = this.#scripted(repository, accept);
    if (scripted) return scripted;
    if (repository.running.has(run)) {
      return {status: 403, body: {message: 'This workflow is already running'}};
    }
    accept();
    return {status: 201, body: {}};
  }

  _dispatch({parameters, body, text, request}) {
    const {repository, refusal} = this.#granted({parameters, request});
    if (refusal) return refusal;
    const accept = () => repository.accepted.push({...body, at: Date.now()});
    const scripted = this.#scripted(repository, accept);
    if (scripted) return scripted;
    const payload = body?.client_payload ?? {};
    if (Object.keys(payload).length > 10 || Buffer.byteLength(text) >= 65536) {
      return {
        status: 422,
        body: {
          message: 'Invalid request.',
          documentation_url: 'https://docs.github.com/rest',
          errors: [{resource: 'RepositoryDispatch', field: 'client_payload', code: 'too_large'}],
        },
      };
    }
    accept();
    return {status: 204};
  }

  _commit({parameters, request}) {
    const grant = this.tokens.get((request.headers.authorization ?? '').split(' ')[1]);
    if (!grant || grant.expires <= Date.now())
      return {status: 401, body: {message: 'Bad credentials'}};
    const documentation_url = 'https://docs.github.com/rest/commits/commits#get-a-commit';
    if (this.commitMode === 'hang') return 'hang';
    if (this.commitMode !== 'serve')
      return {status: this.commitMode, body: {message: `scripted ${this.commitMode}`}};
    if (!this.repositories.has(`${parameters.owner}/${parameters.repo}`.toLowerCase()))
      return {status: 404, body: {message: 'Not Found', documentation_url}};
    if (!this.commits.has(parameters.ref)) {
      const message = `No commit found for SHA: ${parameters.ref}`;
      return {status: 422, body: {message, documentation_url}};
    }
    const example = structuredClone(description.components.examples.commit.value);
    return {status: 200, body: {...example, files: [], sha: parameters.ref}};
  }

  // As raw text, with an ETag. Without authentication where the App is not installed.
  _contents({parameters, request, violation}) {
    const token = (request.headers.authorization ?? '').split(' ')[1];
    if (token !== undefined && !(this.tokens.get(token)?.expires > Date.now()))
      return {status: 401, body: {message: 'Bad credentials'}};
    if (!/^application\/vnd\.github\.raw\+json$/.test(request.headers.accept ?? ''))
      violation('asks for a file as JSON: this double gives them raw');
    const scripted = this.contentsScript.shift();
    if (scripted === 'hang') return 'hang';
    if (scripted)
      return {status: scripted.status, headers: scripted.headers, body: {message: 'scripted'}};
    const {owner, repo, path} = parameters;
    const file = this.files.get(`${owner}/${repo}/${path}`);
    const ref = new URL(request.url, 'http://x').searchParams.get('ref');
    if (!file || (file.ref ?? 'main') !== ref)
      return {
        status: 404,
        body: {message: 'Not Found', documentation_url: 'https://docs.github.com/rest'},
      };
    const etag = `"${createHash('sha256').update(file.text).digest('hex')}"`;
    if (request.headers['if-none-match'] === etag) return {status: 304, headers: {etag}};
    return {
      status: 200,
      raw: file.text,
      headers: {etag, 'content-type': 'application/vnd.github.raw+json; charset=utf-8'},
    };
  }

  // A page of what a pull request changes.
  _files({parameters, request}) {
    const {installation, expires} =
      this.tokens.get((request.headers.authorization ?? '').split(' ')[1]) ?? {};
    const repository = this.repositories.get(
      `${parameters.owner}/${parameters.repo}`.toLowerCase(),
    );
    if (!(expires > Date.now())) return {status: 401, body: {message: 'Bad credentials'}};
    const names = this.changed.get(Number(parameters.pull_number));
    if (typeof names === 'number')
      return {
        status: names,
        body: {message: `scripted ${names}`, documentation_url: 'https://docs.github.com/rest'},
      };
    if (!names || repository?.id !== installation)
      return {
        status: 404,
        body: {message: 'Not Found', documentation_url: 'https://docs.github.com/rest'},
      };
    const query = new URL(request.url, 'http://x').searchParams;
    const size = Number(query.get('per_page') ?? 30);
    const begin = (Number(query.get('page') ?? 1) - 1) * size;
    const example = description.components.examples['diff-entry-items'].value[0];
    return {
      status: 200,
      body: names.slice(begin, begin + size).map((filename) => ({...example, filename})),
    };
  }
}
