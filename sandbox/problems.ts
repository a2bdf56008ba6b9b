import { STATUS_CODES } from 'node:http';
import type { Context } from 'hono';
import { HTTPException } from 'hono/http-exception';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { z } from 'zod';
import { parseJson } from '../src/compliance/json.ts';

/** An error that is answered by RFC 9457. `detail` is for people, `code` for programs. */
export class Problem extends Error {
  readonly status: ContentfulStatusCode;
  readonly code: string;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: ContentfulStatusCode,
    code: string,
    detail: string,
    headers: Readonly<Record<string, string>> = {},
  ) {
    super(detail);
    this.name = 'Problem';
    this.status = status;
    this.code = code;
    this.headers = headers;
  }
}

export function problemResponse(context: Context, problem: Problem): Response {
  const { status, code, message, headers } = problem;
  return context.body(
    JSON.stringify({ type: 'about:blank', title: STATUS_CODES[status], status, detail: message, code }),
    status,
    { 'content-type': 'application/problem+json', ...headers },
  );
}

/** What was sent cannot be used: `detail` says why. */
export function unfit(detail: string): Problem {
  return new Problem(422, 'validation_failed', detail);
}

function invalidJson(): Problem {
  return new Problem(400, 'invalid_json', 'The request body is not JSON.');
}

/** The problem for anything that a handler or one of hono's middlewares threw. An unknown error becomes a 500. */
export function toProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof HTTPException) {
    const challenge = error.res?.headers.get('www-authenticate');
    if (challenge) {
      const how = challenge.startsWith('Basic') ? 'SANDBOX_TOKEN as the password' : 'valid credentials';
      const detail = `Send ${how}, or as Authorization: Bearer …`;
      return new Problem(401, 'unauthorized', detail, { 'www-authenticate': challenge });
    }
    if (error.status === 403) {
      const detail = 'It takes nothing from other sites. A program sends Content-Type: application/json.';
      return new Problem(403, 'foreign_origin', detail);
    }
    if (error.status === 400) return invalidJson();
    if (error.status === 415) {
      return new Problem(415, 'unsupported_media_type', 'Send the body as application/json.');
    }
  }
  return new Problem(500, 'internal_error', 'The sandbox failed; its log has the reason.');
}

/** The request's JSON body, not validated; `{}` without a body. @throws Problem, 400, if it is not JSON. */
export async function readJson(context: Context): Promise<unknown> {
  try {
    return parseJson((await context.req.text()) || '{}');
  } catch (error) {
    throw error instanceof SyntaxError ? invalidJson() : error;
  }
}

export function parseOrRefuse<Schema extends z.ZodType>(schema: Schema, value: unknown): z.infer<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw unfit(z.prettifyError(parsed.error));
}
