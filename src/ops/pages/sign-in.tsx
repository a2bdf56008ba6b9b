import { type Access, foreignOrigin, formFields, type OpsHandlerContext, pathHere } from '../access.ts';
import { page } from './layout.tsx';
import { SignInPage } from './sign-in-page.tsx';

/** The door. */
export function createSignIn(access: Access) {
  const signInPage = (next: string, failure: string | null) =>
    page(<SignInPage next={next} failure={failure} />);

  return {
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
