import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { cli, start } from '../cli/executable.ts';
import { eventually } from '../convergence/service.ts';
import { createSender } from '../faults/sender.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';
import { SECRET } from '../receive/sign.ts';
import { freePorts } from '../support/ports.ts';

const TIMEOUT_MS = 240_000;
const OPS_TOKEN = 'failover-operator-0123456789-of-thirt';

/** A name that moves: whoever connects meets the server that has it now. */
async function startName(first: number): Promise<{ port: number; move(to: number): void }> {
  let target = first;
  const open = new Set<Socket>();
  const name = createServer((socket) => {
    const server = connect(target, '127.0.0.1');
    for (const each of [socket, server]) {
      open.add(each);
      each.on('error', () => undefined).once('close', () => open.delete(each));
    }
    socket.pipe(server).pipe(socket);
    server.once('close', () => socket.destroy());
  }).listen(0, '127.0.0.1');
  await once(name, 'listening');
  onTestFinished(() => {
    name.close();
    for (const socket of open) socket.destroy();
  });
  return { port: (name.address() as AddressInfo).port, move: (to) => (target = to) };
}

/** A primary with a service over it, a standby that follows, and deliveries that come all the time. */
async function underLoad(run: string) {
  const primary = await startPostgres();
  onTestFinished(() => primary.stop());
  const url = await primary.createDatabase();
  expect(await cli(['migrate'], { DATABASE_URL: url })).toMatchObject({ code: 0 });
  const standby = await primary.standby(run);
  onTestFinished(() => standby.stop());
  const name = await startName(primary.port);
  const [port, opsPort] = (await freePorts(2)) as [number, number];
  const service = start(['serve'], {
    PORT: String(port),
    OPS_PORT: String(opsPort),
    OPS_TOKENS: `tester:operate:${OPS_TOKEN}`,
    DATABASE_URL: url.replace(`:${primary.port}/`, `:${name.port}/`),
    WEBHOOK_SECRETS: SECRET,
    LOG_LEVEL: 'fatal',
  });
  onTestFinished(async () => void (await service.stop()));
  await service.line('Operators: ');

  const sender = createSender(run);
  let isOver = false;
  const loading = sender.load(port, () => isOver);
  const more = async (count: number) => {
    const enough = sender.acknowledged.length + count;
    await eventually('further deliveries', () => sender.acknowledged.length >= enough);
  };
  const database = new URL(url).pathname.slice(1);
  const onStandby = async () => {
    const rows = await standby.query('SELECT id FROM events', standby.url({ database }));
    return new Set(rows.map(({ id }) => id));
  };
  return {
    primary,
    standby,
    sender,
    more,
    onStandby,
    /** The primary's machine is gone, and the standby takes over. Returns what was acknowledged and is not there. */
    async failOver(): Promise<string[]> {
      await primary.halt('crash');
      await standby.query('SELECT pg_promote()');
      name.move(standby.port);
      await more(200);
      isOver = true;
      await loading;
      sender.close();
      const there = await onStandby();
      return sender.acknowledged.filter((id) => !there.has(id));
    },
    async restoredGaps(): Promise<string[]> {
      const answer = await fetch(`http://127.0.0.1:${opsPort}/api/problems`, {
        headers: { authorization: `Bearer ${OPS_TOKEN}` },
      });
      const { items } = (await answer.json()) as { items: { kind: string; reason: string }[] };
      return items.filter(({ reason }) => reason === 'restored').map(({ kind }) => kind);
    },
  };
}

const KINDS = ['policy', 'risk_assessment', 'vendor'];

const state = async (primary: PostgresServer) =>
  (await primary.query('SELECT sync_state FROM pg_stat_replication'))[0]?.['sync_state'];

it(
  'nothing that was acknowledged is lost where a synchronous standby takes over under load, and it is noticed',
  async () => {
    const { primary, more, failOver, restoredGaps } = await underLoad('synchronous');
    await primary.query("ALTER SYSTEM SET synchronous_standby_names = 'synchronous'");
    await primary.reload();
    await eventually('the standby', async () => (await state(primary)) === 'sync');
    await more(500);
    expect(await failOver()).toEqual([]);
    await eventually('the problems', async () => (await restoredGaps()).length === KINDS.length);
  },
  TIMEOUT_MS,
);

it(
  'what an asynchronous standby had not seen is lost with the old primary, and a problem of each kind says so',
  async () => {
    const { standby, sender, more, onStandby, failOver, restoredGaps } = await underLoad('asynchronous');
    await more(200);
    const seen = new Set(sender.acknowledged);
    await eventually('the standby', async () => {
      const there = await onStandby();
      return [...seen].every((id) => there.has(id));
    });
    await standby.query("ALTER SYSTEM SET primary_conninfo = ''");
    await standby.query('SELECT pg_reload_conf()');
    await eventually(
      'the end of the stream',
      async () => (await standby.query('SELECT 1 FROM pg_stat_wal_receiver')).length === 0,
    );
    await more(200);
    expect(await restoredGaps()).toEqual([]);
    const lost = await failOver();
    expect(lost.length).toBeGreaterThan(150);
    expect(lost.filter((id) => seen.has(id))).toEqual([]);
    await eventually('the problems', async () => (await restoredGaps()).length === KINDS.length);
    expect((await restoredGaps()).toSorted()).toEqual(KINDS);
  },
  TIMEOUT_MS,
);
