import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { cli, start } from '../cli/executable.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';
import { createSender, eventAbout, SIGNING_SECRET } from '../support/independent-upstream-sender.ts';

const TIMEOUT_MS = 240_000;
const document = readFileSync(new URL('../../docs/postgresql.md', import.meta.url), 'utf8');
const [setUp, readers] = [...document.matchAll(/```sql\n([\s\S]*?)```/g)].map(([, sql]) => sql!);
const passwordOf = (role: string) => new RegExp(`${role} LOGIN PASSWORD '([^']+)'`).exec(setUp!)![1]!;

let server: PostgresServer;
let superuser: string;

beforeAll(async () => {
  server = await startPostgres();
  superuser = await server.createDatabase();
}, TIMEOUT_MS);
afterAll(async () => await server.stop());

const as = (role: string) => server.url({ database: 'test_1', user: role, password: passwordOf(role) });

describe('the grants in docs/postgresql.md', () => {
  it(
    'suffice for the owner to migrate, for the service to run, and for readers to read what is theirs',
    async () => {
      await server.query(setUp!, superuser);
      const owner = { DATABASE_URL: as('mirror_owner'), DATABASE_SCHEMA: 'mirror' };
      expect(await cli(['migrate'], owner)).toMatchObject({ code: 0, err: '' });
      await server.query(readers!, superuser);

      const service = start(['serve'], {
        DATABASE_URL: as('mirror_app'),
        DATABASE_SCHEMA: 'mirror',
        PORT: '0',
        OPS_PORT: '0',
        OPS_TOKENS: 'tester:operate:grants-operator-0123456789-of-thirt',
        WEBHOOK_SECRETS: SIGNING_SECRET,
        LOG_LEVEL: 'warn',
      });
      const url = /http\S+/.exec(await service.line('Deliveries: '))![0];
      const ops = /http\S+/.exec(await service.line('Operators: '))![0];
      const sender = createSender(url);
      const event = eventAbout('policy.created', 'policies', {
        id: 'pol-1',
        name: 'One',
        version: '1',
        status: 'draft',
      });
      expect(await sender.attempt(event)).toBe(202);
      expect((await fetch(`${ops}/readyz`)).status).toBe(200);
      // Signing in writes where nothing else does.
      const signedIn = await fetch(`${ops}/sign-in`, {
        method: 'POST',
        redirect: 'manual',
        headers: { 'content-type': 'application/x-www-form-urlencoded', 'sec-fetch-site': 'same-origin' },
        body: 'token=grants-operator-0123456789-of-thirt',
      });
      expect(signedIn.status).toBe(303);
      sender.close();
      await vi.waitFor(
        async () =>
          expect(await server.query('SELECT path FROM mirror.fields', superuser)).toContainEqual({
            path: 'policyId',
          }),
        { timeout: TIMEOUT_MS, interval: 200 },
      );
      expect(await service.stop()).toBe(0);

      await server.query("CREATE ROLE ann LOGIN PASSWORD 'ann-reads-here' IN ROLE mirror_readers", superuser);
      const ann = server.url({ database: 'test_1', user: 'ann', password: 'ann-reads-here' });
      expect(await server.query('SELECT name FROM mirror.current_policies', ann)).toEqual([{ name: 'One' }]);
      // A view that the service has given a column, and owns no part of.
      expect(await server.query('SELECT policy_id FROM mirror.policies_flat', ann)).toEqual([
        { policy_id: 'pol-1' },
      ]);
      expect(await server.query('SELECT kind FROM mirror.sync_status', ann)).toHaveLength(3);
      await expect(server.query('SELECT * FROM mirror.tokens', ann)).rejects.toThrow(/permission denied/);
      await expect(server.query('DELETE FROM mirror.policies', ann)).rejects.toThrow(/permission denied/);
      await expect(server.query('DROP TABLE mirror.policies', as('mirror_app'))).rejects.toThrow(
        /must be owner/,
      );
    },
    TIMEOUT_MS,
  );
});
