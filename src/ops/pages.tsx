import { problem } from '../problem.ts';
import { type Access, foreignOrigin, formFields, type OpsHandlerContext } from './access.ts';
import { SignInPage } from './dashboard/sign-in-page.tsx';
import { StatusPage, StatusParts } from './dashboard/status-page.tsx';
import type { Done, Operations } from './operations.ts';
import type { Snapshots } from './snapshot.ts';

/** The pages, and the forms on them. A form that succeeded leads back to the page (303), so that a reload repeats nothing. */
export function createPages(access: Access, operations: Operations, snapshots: Snapshots) {
  const actor = (c: OpsHandlerContext) => c.get('identity').name;

  const back = async (c: OpsHandlerContext, done: Done<unknown>): Promise<Response> => {
    if (done.status === 'missing') return problem(404, 'not_found', 'It is not there any more.');
    if (done.status === 'conflict')
      return problem(409, done.code, 'Its state does not allow this.', done.detail);
    // The page that follows must show what was just done.
    await snapshots.fresh();
    return c.redirect('/', 303);
  };

  return {
    status: async (c: OpsHandlerContext) =>
      c.html(page(<StatusPage snapshot={await snapshots.current()} identity={c.get('identity')} />)),

    statusParts: async (c: OpsHandlerContext) =>
      String(<StatusParts snapshot={await snapshots.current()} identity={c.get('identity')} />),

    signInForm: (c: OpsHandlerContext) => c.html(page(<SignInPage failure={null} />)),

    async signIn(c: OpsHandlerContext): Promise<Response> {
      if (!access.fromThisSite(c)) return foreignOrigin();
      const token = (await formFields(c)).get('token') ?? '';
      const outcome = await access.signIn(c, token.trim());
      if (outcome.status === 'ok') return c.redirect('/', 303);
      if (outcome.status === 'refused') {
        return c.html(page(<SignInPage failure="This token is not known." />), 401);
      }
      c.header('Retry-After', String(outcome.retryAfterSeconds));
      const failure = `Too many attempts. Try again in ${outcome.retryAfterSeconds} seconds.`;
      return c.html(page(<SignInPage failure={failure} />), 429);
    },

    async signOut(c: OpsHandlerContext): Promise<Response> {
      await access.signOut(c);
      return c.redirect('/sign-in', 303);
    },

    sweep: async (c: OpsHandlerContext) => back(c, await operations.sweep(actor(c))),
    pause: async (c: OpsHandlerContext) => back(c, await operations.pause(actor(c))),
    resume: async (c: OpsHandlerContext) => back(c, await operations.resume(actor(c))),
    async confirmDeletions(c: OpsHandlerContext): Promise<Response> {
      const fields = await formFields(c);
      const sweep = fields.get('sweep') ?? '';
      if (fields.get('sure') !== 'yes' || !/^[1-9]\d{0,14}$/.test(sweep)) {
        return problem(
          400,
          'invalid_form',
          'The box must be ticked.',
          'Go back and tick it, if you are sure.',
        );
      }
      return back(c, await operations.confirmDeletions(actor(c), Number(sweep)));
    },
  };
}

function page(content: unknown): string {
  return `<!doctype html>${String(content)}`;
}
