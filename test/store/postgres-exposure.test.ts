import { afterEach, describe, expect, it, vi } from 'vitest';
import { databaseExposure } from '../../src/store/open.ts';

const OPEN = /^the connection to \S+ is not encrypted/;
const UNPROVEN = /^the connection to \S+ trusts any certificate/;
const at = (host: string, query = '') => `postgres://ann:secret@${host}/mirror${query}`;

afterEach(() => vi.unstubAllEnvs());

describe('the way to the database', () => {
  it.each([
    ['a file', 'file:./data/mirror.db', null],
    ['localhost', at('localhost'), null],
    ['LOCALHOST with a port', at('LOCALHOST:6000'), null],
    ['127.0.0.1', at('127.0.0.1'), null],
    ['another loopback address', at('127.8.9.1'), null],
    ['::1', at('[::1]'), null],
    ['no host', 'postgres:///mirror', null],
    ['a Unix socket as the host', at('%2Fvar%2Frun%2Fpostgresql'), null],
    ['a Unix socket as a parameter', 'postgres:///mirror?host=/var/run/postgresql', null],
    ['loopback, and TLS forbidden', at('127.0.0.1', '?sslmode=disable'), null],
    ['another host', at('db.example'), OPEN],
    ['another host as a parameter', 'postgres:///mirror?host=db.example', OPEN],
    ['a host that only begins like this machine', at('localhost.example'), OPEN],
    ['an address that only begins like loopback', at('127.0.0.1.example'), OPEN],
    ['a private address', at('10.0.0.5'), OPEN],
    ['every address', at('0.0.0.0'), OPEN],
    ['sslmode=disable', at('db.example', '?sslmode=disable'), OPEN],
    ['ssl=0', at('db.example', '?ssl=0'), OPEN],
    ['sslmode=no-verify', at('db.example', '?sslmode=no-verify'), UNPROVEN],
    ['ssl=no-verify', at('db.example', '?ssl=no-verify'), UNPROVEN],
    ['require as libpq has it', at('db.example', '?uselibpqcompat=true&sslmode=require'), UNPROVEN],
    // The driver takes all of these for verify-full; none of them falls back to no TLS.
    ['sslmode=prefer', at('db.example', '?sslmode=prefer'), null],
    ['sslmode=require', at('db.example', '?sslmode=require'), null],
    ['sslmode=verify-ca', at('db.example', '?sslmode=verify-ca'), null],
    ['sslmode=verify-full', at('db.example', '?sslmode=verify-full'), null],
    ['ssl=true', at('db.example', '?ssl=true'), null],
  ])('%s', async (_, url, expected) => {
    const exposure = await databaseExposure(url, {});
    if (expected === null) expect(exposure).toBeNull();
    else expect(exposure?.says).toMatch(expected);
    expect(JSON.stringify(exposure)).not.toContain('secret');
  });

  it('is protected where an authority is named', async () => {
    expect(await databaseExposure(at('db.example'), { tlsCaFile: '/dev/null' })).toBeNull();
  });

  it('is what the driver has of its own variables where the address does not say', async () => {
    vi.stubEnv('PGSSLMODE', 'verify-full');
    expect(await databaseExposure(at('db.example'), {})).toBeNull();
    vi.stubEnv('PGSSLMODE', 'no-verify');
    expect((await databaseExposure(at('db.example'), {}))?.says).toMatch(UNPROVEN);
    vi.stubEnv('PGSSLMODE', '');
    vi.stubEnv('PGHOST', 'db.example');
    expect((await databaseExposure('postgres:///mirror', {}))?.says).toMatch(OPEN);
  });
});
