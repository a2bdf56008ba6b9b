import { type Context, Hono } from 'hono';
import { z } from 'zod';
import { parseScopes, sameText } from '../access.ts';
import type { OauthOptions } from '../options.ts';
import type { Grants, IssuedTokens } from './grants.ts';

/** Section 5 of the specification for the first grant type; the other two are assumed. Further fields are ignored. */
const client = { client_id: z.string(), client_secret: z.string() };
const requestSchema = z.discriminatedUnion('grant_type', [
  z.object({
    ...client,
    grant_type: z.literal('authorization_code'),
    code: z.string(),
    redirect_uri: z.string(),
    code_verifier: z
      .string()
      .regex(/^[A-Za-z0-9._~-]{43,128}$/)
      .optional(),
  }),
  z.object({ ...client, grant_type: z.literal('refresh_token'), refresh_token: z.string() }),
  z.object({ ...client, grant_type: z.literal('client_credentials'), scope: z.string().default('') }),
]);
type TokenRequest = z.infer<typeof requestSchema>;

type ErrorCode =
  | 'invalid_request'
  | 'invalid_client'
  | 'invalid_grant'
  | 'invalid_scope'
  | 'unsupported_grant_type';

/** An error by RFC 6749, section 5.2, and not a problem document, which OAuth clients do not read. */
class Refusal extends Error {
  readonly error: ErrorCode;
  readonly status: 400 | 401 | 415;

  constructor(error: ErrorCode, description: string, status: 400 | 401 | 415 = 400) {
    super(description);
    this.error = error;
    this.status = status;
  }
}

/** `POST /oauth/token`. It takes only JSON bodies, as the specification has them, and rejects forms with a reason. */
export function tokenRoutes(oauth: OauthOptions, grants: Grants): Hono {
  return new Hono().post('/token', async (c) => {
    c.header('cache-control', 'no-store');
    try {
      return c.json(issue(await read(c), oauth, grants));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return c.json({ error: error.error, error_description: error.message }, error.status);
    }
  });
}

async function read(c: Context): Promise<TokenRequest> {
  if (!/^application\/json *(;|$)/i.test(c.req.header('content-type') ?? '')) {
    throw new Refusal('invalid_request', 'Send the fields as a JSON object, application/json.', 415);
  }
  const body: unknown = await c.req.json().catch(() => null);
  const parsed = requestSchema.safeParse(body);
  if (parsed.success) return parsed.data;
  const field = parsed.error.issues[0]?.path.join('.') || 'the body';
  const given = (body as { grant_type?: unknown } | null)?.grant_type;
  if (field === 'grant_type' && typeof given === 'string') {
    throw new Refusal('unsupported_grant_type', 'authorization_code, refresh_token or client_credentials.');
  }
  // Only the name of the field is shown, because its value may be a secret.
  throw new Refusal('invalid_request', `${field} is missing or malformed.`);
}

function issue(
  request: TokenRequest,
  { application, serviceAccounts }: OauthOptions,
  grants: Grants,
): IssuedTokens {
  const { client_id: clientId, client_secret: secret } = request;
  const known = request.grant_type === 'client_credentials' ? serviceAccounts : [application];
  const found = known.find(({ id }) => id === clientId);
  if (found === undefined || !sameText(found.secret, secret)) {
    throw new Refusal('invalid_client', 'There is no such client with this secret for this grant.', 401);
  }
  if (request.grant_type === 'client_credentials') {
    const held = new Set('scopes' in found ? found.scopes : []);
    const wanted = parseScopes(request.scope) ?? [request.scope];
    if (!wanted.every((scope) => held.has(scope))) {
      throw new Refusal('invalid_scope', 'The account may not do all of that.');
    }
    return grants.issueToAccount(wanted.length === 0 ? held : new Set(wanted));
  }
  const tokens =
    request.grant_type === 'authorization_code'
      ? grants.redeemCode(request.code, {
          clientId,
          redirectUri: request.redirect_uri,
          verifier: request.code_verifier ?? null,
        })
      : grants.refresh(request.refresh_token, clientId);
  if (tokens === null) throw new Refusal('invalid_grant', 'It is used, expired, revoked or not for this.');
  return tokens;
}
