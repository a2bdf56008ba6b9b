/** Content type of every error that this service answers (RFC 9457). */
export const PROBLEM_CONTENT_TYPE = 'application/problem+json';

/** The JSON text of a problem. `code` is stable and meant for programs; `title` and `detail` are for people. */
export function problemText(status: number, code: string, title: string, detail?: string): string {
  return JSON.stringify({ type: 'about:blank', title, status, code, detail });
}

/** The answer for an error. `headers`: in lower case, without the content type. */
export function problem(
  status: number,
  code: string,
  title: string,
  detail?: string,
  headers?: Readonly<Record<string, string>>,
): Response {
  return new Response(problemText(status, code, title, detail), {
    status,
    headers: { 'content-type': PROBLEM_CONTENT_TYPE, ...headers },
  });
}
