import fc from 'fast-check';
import { Hono } from 'hono';
import { expect, it } from 'vitest';
import { idFromPath, idInPath } from '../../src/ops/api/ids.ts';
import { anyText } from '../support/texts.ts';

const app = new Hono().get('/events/:id/retry', (c) => c.text(idFromPath(c.req.param('id'))));
const through = async (segment: string) =>
  await (await app.request(new URL(`/events/${segment}/retry`, 'http://localhost'))).text();

const special = fc.constantFrom('', '.', '..', '=', '=Lg', '=Li4', '==', '=x', '%2E', '...', '/', 'a/../b');

it('every id comes through a path as it is', async () => {
  await fc.assert(
    fc.asyncProperty(fc.oneof(special, anyText()), async (id) => {
      expect(await through(idInPath(id))).toBe(id);
    }),
  );
});

it('an id that only looks like our form is taken for itself', async () => {
  for (const id of ['=vendor', '=TGc', '=Lg==']) expect(await through(encodeURIComponent(id))).toBe(id);
});
