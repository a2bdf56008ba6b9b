import { randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { ComplianceSettings } from '../../src/platform/config.ts';

/**
 * An authorization server and an API in one, written from the specification and RFC 6749 and from nothing of
 * ours: JSON bodies only, a refresh token works once, and an access token only until it is `expire`d.
 */
export interface OauthServer {
  origin: string;
  settings(changes?: Partial<ComplianceSettings>): ComplianceSettings;
  /** Bodies that the token address received, in order, with the headers of each. */
  grants: { body: Record<string, unknown>; contentType: string }[];
  /** Authorization headers and paths that the API received. */
  calls: { authorization: string; path: string }[];
  /** A grant as a person would bring it home. */
  issueCode(challenge?: string): string;
  /** Whether a redirect carries the state that the sign-in sent. */
  returnsState: boolean;
  /** Told of every call of the API before it is answered. */
  onCall: (count: number) => void;
  /** While it is not settled every answer is held back; what has expired meanwhile counts. */
  gate: Promise<void> | null;
  /** No access token issued so far is good any more. */
  expireAccess(): void;
  /** No refresh token issued so far is good any more. */
  revokeRefresh(): void;
  /** What token answers hold; undefined leaves a field out. */
  answer: { expires_in?: unknown; scope?: string; refresh?: 'rotated' | 'absent'; token_type?: string };
  /** Answers the next token requests so, one each, instead. */
  failures: { status: number; body: unknown; headers?: Record<string, string> }[];
  /** Static keys that the API takes besides. */
  apiKeys: string[];
  /** What the API lists. */
  policies: Record<string, unknown>[];
  close(): Promise<void>;
}

export const CLIENT_ID = 'client-of-the-mirror';
export const CLIENT_SECRET = 'canary-client-secret-83b1';
export const ACCESS_PREFIX = 'canary-access-';
export const CODE_PREFIX = 'canary-code-';
export const REFRESH_PREFIX = 'canary-refresh-';
/** What the API gives to whoever registers. */
export const REGISTERED_SECRET = 'canary-registered-secret-5d0c';
export const REDIRECT_URI = 'http://127.0.0.1:0/callback';

/** Of a mirror in `directory` for which a person consents there. */
export const oauthSettings = (
  { origin }: OauthServer,
  directory: string,
  key: Uint8Array = randomBytes(32),
) => ({
  DATABASE_URL: `file:${join(directory, 'mirror.db')}`,
  COMPLIANCE_BASE_URL: `${origin}/v1`,
  COMPLIANCE_AUTH: 'oauth',
  COMPLIANCE_AUTH_URL: `${origin}/auth`,
  COMPLIANCE_CLIENT_ID: CLIENT_ID,
  COMPLIANCE_CLIENT_SECRET: CLIENT_SECRET,
  COMPLIANCE_REDIRECT_URI: REDIRECT_URI,
  CREDENTIALS_KEY: Buffer.from(key).toString('base64'),
});

export async function startOauthServer(): Promise<OauthServer> {
  let count = 0;
  let access = new Set<string>();
  let refresh = new Set<string>();
  const codes = new Map<string, string | undefined>();

  const grant = () => {
    count += 1;
    const tokens = { access_token: `${ACCESS_PREFIX}${count}`, refresh_token: `${REFRESH_PREFIX}${count}` };
    access.add(tokens.access_token);
    const { refresh: mode, ...rest } = self.answer;
    if (mode === 'absent') return { access_token: tokens.access_token, ...rest };
    refresh.add(tokens.refresh_token);
    return { ...tokens, ...rest };
  };

  async function token(request: IncomingMessage, response: ServerResponse) {
    const text = await bodyOf(request);
    const contentType = request.headers['content-type'] ?? '';
    const refuse = (error: string, status = 400) =>
      json(response, status, { error, error_description: text });
    if (contentType !== 'application/json') return refuse('invalid_request');
    const body = JSON.parse(text) as Record<string, unknown>;
    self.grants.push({ body, contentType });
    await self.gate;
    const failure = self.failures.shift();
    if (failure !== undefined) return json(response, failure.status, failure.body, failure.headers);
    if (body['client_id'] !== CLIENT_ID || body['client_secret'] !== CLIENT_SECRET) {
      return refuse('invalid_client', 401);
    }
    if (body['grant_type'] === 'client_credentials') return json(response, 200, grant());
    if (body['grant_type'] === 'authorization_code') {
      const code = String(body['code']);
      if (!codes.has(code)) return refuse('invalid_grant');
      const challenge = codes.get(code);
      codes.delete(code);
      if (challenge !== undefined && (await s256(String(body['code_verifier']))) !== challenge) {
        return refuse('invalid_grant');
      }
      return json(response, 200, grant());
    }
    const given = String(body['refresh_token']);
    if (!refresh.has(given)) return refuse('invalid_grant');
    if (self.answer.refresh !== 'absent') refresh.delete(given);
    return json(response, 200, grant());
  }

  const server = createServer(async (request, response) => {
    const url = new URL(request.url ?? '/', 'http://localhost');
    if (url.pathname === '/auth/oauth/token' && request.method === 'POST')
      return void token(request, response);
    if (url.pathname === '/auth/oauth/authorize') {
      const back = new URL(url.searchParams.get('redirect_uri') ?? '');
      back.searchParams.set('code', self.issueCode(url.searchParams.get('code_challenge') ?? undefined));
      const state = url.searchParams.get('state');
      if (state !== null && self.returnsState) back.searchParams.set('state', state);
      return void response.writeHead(302, { location: back.href }).end();
    }
    const authorization = request.headers.authorization ?? '';
    self.calls.push({ authorization, path: url.pathname });
    self.onCall(self.calls.length);
    await self.gate;
    const bearer = authorization.replace('Bearer ', '');
    if (!access.has(bearer) && !self.apiKeys.includes(bearer))
      return json(response, 401, { echo: authorization });
    if (url.pathname === '/v1/webhooks') {
      return json(response, 201, { data: { id: 'wh_1', secret: REGISTERED_SECRET } });
    }
    if (url.pathname === '/v1/policies' || url.pathname === '/v1/vendors') {
      const all = url.pathname === '/v1/policies' ? self.policies : [];
      const page = Number(url.searchParams.get('page'));
      const perPage = Number(url.searchParams.get('perPage'));
      const data = all.slice((page - 1) * perPage, page * perPage);
      return json(response, 200, { data, meta: { page, perPage, total: all.length } });
    }
    return json(response, 404, {});
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  const self: OauthServer = {
    origin,
    grants: [],
    calls: [],
    failures: [],
    policies: [],
    apiKeys: [],
    onCall: () => {},
    returnsState: true,
    gate: null,
    answer: { token_type: 'Bearer', expires_in: 3600 },
    settings: (changes = {}) => ({
      baseUrl: new URL(`${origin}/v1`),
      auth: 'oauth',
      apiKey: null,
      authUrl: new URL(`${origin}/auth`),
      clientId: CLIENT_ID,
      clientSecret: () => CLIENT_SECRET,
      redirectUri: REDIRECT_URI,
      scopes: ['read'],
      pkce: true,
      state: true,
      requestsPerMinute: 1000,
      paging: { pageParam: 'page', perPageParam: 'perPage', firstPage: 1, pageSize: 2 },
      timeoutMs: 30_000,
      ...changes,
    }),
    issueCode(challenge) {
      count += 1;
      const code = `${CODE_PREFIX}${count}`;
      codes.set(code, challenge);
      return code;
    },
    expireAccess() {
      access = new Set();
    },
    revokeRefresh() {
      refresh = new Set();
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return self;
}

async function s256(verifier: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier));
  return Buffer.from(digest).toString('base64url');
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}

function json(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}) {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}
