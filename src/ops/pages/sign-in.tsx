import { type Access, foreignOrigin, formFields, type OpsHandlerContext, pathHere } from '../access.ts';
import type { Snapshots } from '../snapshot.ts';
import { SignInPage } from './sign-in-page.tsx';
import { StatusPage, StatusParts } from './status-page.tsx';

/** The status page, and the door to it. */
export function createPages(access: Access, snapshots: Snapshots) {
  const signInPage = (next: string, failure: string | null) =>
    page(<SignInPage next={next} failure={failure} />);

  return {
    status: async (c: OpsHandlerContext) =>
      c.html(page(<StatusPage snapshot={await snapshots.current()} identity={c.get('identity')} />)),

    statusParts: async (c: OpsHandlerContext) =>
      String(<StatusParts snapshot={await snapshots.current()} identity={c.get('identity')} />),

    signInForm: (c: OpsHandlerContext) => c.html(signInPage(pathHere(c.req.query('next') ?? null), null)),

    async signIn(c: OpsHandlerContext): Promise<Response> {
      if (!access.fromThisSite(c)) return foreignOrigin();
      const fields = await formFields(c);
      const next = pathHere(fields.get('next'));
      const outcome = await access.signIn(c, (fields.get('token') ?? '').trim());
      if (outcome.status === 'ok') return c.redirect(next, 303);
      if (outcome.status === 'refused') return c.html(signInPage(next, 'This token is not known.'), 401);
      c.header('Retry-After', String(outcome.retryAfterSeconds));
      return c.html(
        signInPage(next, `Too many attempts. Try again in ${outcome.retryAfterSeconds} seconds.`),
        429,
      );
    },

    async signOut(c: OpsHandlerContext): Promise<Response> {
      await access.signOut(c);
      return c.redirect('/sign-in', 303);
    },
  };
}

export function page(content: unknown): string {
  return `<!doctype html>${String(content)}`;
}
