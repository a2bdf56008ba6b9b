import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { cli, start } from '../cli/executable.ts';
import { eventually } from '../convergence/service.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';

const TIMEOUT_MS = 240_000;

let server: PostgresServer;
let url: string;
let dataFolder: string;

beforeAll(async () => {
  server = await startPostgres();
  url = await server.createDatabase();
  expect(await cli(['migrate'], { DATABASE_URL: url })).toMatchObject({ code: 0 });
  dataFolder = String((await server.query('SHOW data_directory'))[0]!['data_directory']);
}, TIMEOUT_MS);
afterAll(async () => await server.stop());

const settings = (to: Record<string, string>) => ({
  PORT: '0',
  OPS_PORT: '0',
  LOG_LEVEL: 'fatal',
  WEBHOOK_SECRETS: 'a-secret-that-signs-nothing',
  OPS_TOKENS: 'tester:operate:servers-operator-0123456789-of-thirt',
  DATABASE_URL: url,
  ...to,
});

async function role(name: string, sql: string): Promise<string> {
  await server.query(`CREATE ROLE ${name} LOGIN PASSWORD 'p-${name}'; ${sql}`, url);
  return server.url({ database: new URL(url).pathname.slice(1), user: name, password: `p-${name}` });
}

describe('"serve" ends with exit code 2 and says what to do', () => {
  it('where the user may write nowhere', async () => {
    const to = await role(
      'reads',
      'ALTER ROLE reads SUPERUSER; ALTER ROLE reads SET default_transaction_read_only = on',
    );
    const { code, err } = await cli(['serve'], settings({ DATABASE_URL: to }));
    expect(err).toMatch(/takes no writes.*default_transaction_read_only/);
    expect(err).toContain('ALTER ROLE "reads" SET default_transaction_read_only = off');
    expect(code).toBe(2);
  });
});

describe('over a network without TLS', () => {
  // As good as 127.0.0.1 to connect to, and no loopback address.
  const exposed = () => ({
    ...settings({ LOG_LEVEL: 'warn' }),
    DATABASE_URL: url.replace('127.0.0.1', '0.0.0.0'),
  });

  it('"serve" warns on standard error and in the log, and runs', async () => {
    const service = start(['serve'], exposed());
    expect(await service.line('WARNING')).toContain('the connection to 0.0.0.0 is not encrypted');
    expect(await service.line('sslmode=verify-full')).toContain('DATABASE_TLS_CA_FILE');
    expect(JSON.parse(await service.line('"exposed"'))).toMatchObject({ level: 'warn', stage: 'store' });
    await service.line('Operators: ');
    expect(await service.stop()).toBe(0);
  });
});

/** A file that the server's own user can read, and nobody else. */
function ownFile(name: string, text: string): void {
  const path = join(dataFolder, name);
  writeFileSync(path, text);
  const { uid, gid } = statSync(dataFolder);
  chownSync(path, uid, gid);
  chmodSync(path, 0o600);
}

const hasOpenssl = spawnSync('openssl', ['version']).status === 0;

describe.runIf(hasOpenssl)('over TLS', () => {
  let folder: string;
  let secure: string;

  /** A key and a certificate, signed by the authority `by` or by itself. */
  function certify(name: string, subject: string, by?: string): void {
    const at = (ending: string) => join(folder, `${name}.${ending}`);
    const signer =
      by === undefined ? [] : ['-CA', join(folder, `${by}.crt`), '-CAkey', join(folder, `${by}.key`)];
    execFileSync(
      'openssl',
      [
        ...[
          'req',
          '-x509',
          '-newkey',
          'ec',
          '-pkeyopt',
          'ec_paramgen_curve:prime256v1',
          '-nodes',
          '-days',
          '2',
        ],
        ...['-keyout', at('key'), '-out', at('crt'), '-subj', `/CN=${subject}`, ...signer],
        ...(by === undefined ? [] : ['-addext', `subjectAltName=DNS:${subject}`]),
        ...(by === undefined ? [] : ['-addext', 'basicConstraints=critical,CA:FALSE']),
      ],
      { stdio: 'pipe' },
    );
  }

  async function present(name: string): Promise<void> {
    for (const ending of ['key', 'crt']) {
      ownFile(
        `server.${ending}`,
        execFileSync('cat', [join(folder, `${name}.${ending}`)], { encoding: 'utf8' }),
      );
    }
    await server.query('ALTER SYSTEM SET ssl = on');
    await server.reload();
  }

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'mirror-tls-'));
    certify('authority', 'The right authority');
    certify('stranger', 'Another authority');
    certify('here', 'localhost', 'authority');
    certify('elsewhere', 'db.example', 'authority');
    secure = `${url.replace('127.0.0.1', 'localhost')}?sslmode=verify-full`;
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const ca = (name: string) => ({ DATABASE_URL: secure, DATABASE_TLS_CA_FILE: join(folder, `${name}.crt`) });

  it('runs where the authority is the one that was named, on every connection', async () => {
    await present('here');
    const service = start(['serve'], settings(ca('authority')));
    await service.line('Operators: ');
    const connections = await eventually('more than one connection', async () => {
      const open = await server.query(
        "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'compliance-mirror'",
      );
      return open.length > 1 && open;
    });
    expect(connections.every(({ ssl }) => ssl === true)).toBe(true);
    expect(await service.stop()).toBe(0);
  });

  it.each([
    ['of another authority', 'here', () => ca('stranger')],
    ['that nobody vouches for', 'here', () => ({ DATABASE_URL: secure })],
    ['of another name', 'elsewhere', () => ca('authority')],
  ])('does not begin with a certificate %s', async (_what, shown, to) => {
    await present(shown);
    const { code, err } = await cli(['serve'], settings(to()));
    expect(err).toMatch(/certificate .*is not trusted.*DATABASE_TLS_CA_FILE/s);
    expect(err).not.toContain(new URL(url).password);
    expect(code).toBe(2);
  });
});

describe('a standby', () => {
  it(
    'is named, with what to do',
    async () => {
      await server.halt('orderly');
      ownFile('standby.signal', '');
      await server.start();
      const { code, err } = await cli(['serve'], settings({}));
      expect(err).toMatch(/is a standby, which takes no writes.*DATABASE_URL name the primary/s);
      expect(code).toBe(2);
    },
    TIMEOUT_MS,
  );
});
