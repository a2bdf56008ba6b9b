import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createSocket, type Socket } from 'node:dgram';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Running, start } from '../cli/executable.ts';
import { eventually } from '../convergence/service.ts';
import { eventAbout, SIGNING_SECRET, signature } from '../support/independent-upstream-sender.ts';
import { freePorts } from '../support/ports.ts';

const TIMEOUT_MS = 120_000;
/** What a sender waits for. */
const SENDER_MS = 15_000;
const REPLICAS = ['127.0.0.2', '127.0.0.3', '127.0.0.4'];
const HOSTILE = '127.0.0.8';
const HONEST = '127.0.0.9';
const BODY_LIMIT = 1_088 * 1024;

// Debian puts it where only root looks. Elsewhere than on Linux there is one loopback address only.
const NGINX = ['nginx', '/usr/sbin/nginx'].find((path) => spawnSync(path, ['-v']).status === 0);
const canRun = process.platform === 'linux' && NGINX !== undefined;

interface Answer {
  status: number | null;
  retryAfter: string | undefined;
  text: string;
}

let folder: string;
let names: Socket;
let replicas: Running[];
let nginx: ChildProcess;
let port: number;

/** What Docker's resolver does: every name is all replicas. */
async function serveNames(): Promise<Socket> {
  const socket = createSocket('udp4');
  socket.on('message', (query, from) => {
    const question = query.subarray(12, query.indexOf(0, 12) + 5);
    const header = Buffer.from([...query.subarray(0, 2), 0x81, 0x80, 0, 1, 0, REPLICAS.length, 0, 0, 0, 0]);
    const answers = REPLICAS.map((address) =>
      Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, ...address.split('.').map(Number)]),
    );
    socket.send(Buffer.concat([header, question, ...answers]), from.port, from.address);
  });
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve));
  return socket;
}

/** docs/load-balancer.conf as it is, but for addresses and ports. */
function startNginx(listen: readonly [number, number], behind: readonly [number, number]): ChildProcess {
  const resolver = `127.0.0.1:${(names.address() as AddressInfo).port}`;
  const conf = readFileSync(new URL('../../docs/load-balancer.conf', import.meta.url), 'utf8')
    .replace('resolver 127.0.0.11', `resolver ${resolver}`)
    .replace('listen 8080', `listen 127.0.0.1:${listen[0]}`)
    .replace('listen 8081', `listen 127.0.0.1:${listen[1]}`)
    .replace('$replicas:8080', `$replicas:${behind[0]}`)
    .replace('$replicas:8081', `$replicas:${behind[1]}`);
  const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${join(folder, name)};`,
  );
  writeFileSync(join(folder, 'default.conf'), conf);
  writeFileSync(
    join(folder, 'nginx.conf'),
    `${process.getuid?.() === 0 ? 'user root;' : ''} daemon off; master_process off; error_log stderr;
     pid ${join(folder, 'nginx.pid')}; events { worker_connections 1024; }
     http { access_log off; ${paths.join(' ')} include ${join(folder, 'default.conf')}; }`,
  );
  return spawn(NGINX!, ['-p', folder, '-e', 'stderr', '-c', join(folder, 'nginx.conf')], {
    stdio: ['ignore', 'ignore', 'ignore'],
  });
}

/** A request that is still to be ended, and its answer: status null if none came within a sender's patience. */
function open(from: string, headers: Record<string, string | number>): [ClientRequest, Promise<Answer>] {
  const { promise, resolve } = Promise.withResolvers<Answer>();
  const none = { status: null, retryAfter: undefined, text: '' };
  const sent = request(
    {
      host: '127.0.0.1',
      port,
      localAddress: from,
      path: '/webhooks',
      method: 'POST',
      headers,
      signal: AbortSignal.timeout(SENDER_MS),
    },
    (response: IncomingMessage) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part;
      });
      response.on('error', () => resolve(none));
      response.on('end', () =>
        resolve({ status: response.statusCode ?? null, retryAfter: response.headers['retry-after'], text }),
      );
    },
  );
  sent.on('error', () => resolve(none));
  return [sent, promise];
}

let delivered = 0;
function deliver(from: string): Promise<Answer> {
  delivered += 1;
  const { body } = eventAbout('vendor.updated', 'vendors', { id: `ven-${delivered}`, name: 'One' } as never);
  const [sent, answer] = open(from, {
    'x-webhook-signature': signature(body),
    'content-length': Buffer.byteLength(body),
  });
  sent.end(body);
  return answer;
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
const statuses = (answers: readonly Answer[]) =>
  Object.fromEntries(
    [...Map.groupBy(answers, ({ status }) => String(status))].map(([status, all]) => [status, all.length]),
  );

/** The bodies on disk now, in bytes each: nginx takes their names away at once, and keeps them open. */
function kept(): number[] {
  const open = `/proc/${nginx.pid}/fd`;
  return readdirSync(open).flatMap((fd) => {
    try {
      const path = join(open, fd);
      return readlinkSync(path).startsWith(join(folder, 'client_body')) ? [statSync(path).size] : [];
    } catch {
      // Closed since it was listed.
      return [];
    }
  });
}

async function deliverAt(perSecond: number, count: number): Promise<Answer[]> {
  const answers: Promise<Answer>[] = [];
  const begun = performance.now();
  while (answers.length < count) {
    const due = Math.min(count, Math.ceil(((performance.now() - begun) * perSecond) / 1000));
    while (answers.length < due) answers.push(deliver(HONEST));
    await pause(5);
  }
  return await Promise.all(answers);
}

describe.runIf(canRun)('docs/load-balancer.conf, in a real nginx before three replicas', () => {
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'mirror-balancer-'));
    names = await serveNames();
    const ports = await freePorts(4);
    const [opsPort, replicaPort, replicaOpsPort] = ports.slice(1) as [number, number, number];
    port = ports[0]!;
    replicas = REPLICAS.map((host, index) => {
      mkdirSync(join(folder, `replica-${index}`));
      return start(['serve'], {
        HOST: host,
        PORT: String(replicaPort),
        OPS_HOST: host,
        OPS_PORT: String(replicaOpsPort),
        DATABASE_URL: `file:${join(folder, `replica-${index}`, 'mirror.db')}`,
        OPS_TOKENS: 'tester:operate:balancer-operator-0123456789-of-thirt',
        WEBHOOK_SECRETS: SIGNING_SECRET,
        LOG_LEVEL: 'fatal',
      });
    });
    await Promise.all(replicas.map((replica) => replica.line('Operators: ')));
    nginx = startNginx([port, opsPort], [replicaPort, replicaOpsPort]);
    await eventually('a delivery that is taken', async () => (await deliver(HONEST)).status === 202);
  }, TIMEOUT_MS);

  afterAll(async () => {
    const gone = new Promise((resolve) => nginx.once('close', resolve));
    nginx.kill('SIGTERM');
    await gone;
    await Promise.all(replicas.map((replica) => replica.stop()));
    names.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it(
    'answers every delivery in time while one of the replicas hangs',
    async () => {
      replicas[1]!.child.kill('SIGSTOP');
      try {
        expect(statuses(await deliverAt(20, 60))).toEqual({ 202: 60 });
      } finally {
        replicas[1]!.child.kill('SIGCONT');
      }
    },
    TIMEOUT_MS,
  );

  it(
    'takes what a sender has in a burst: 600 deliveries, 120 of them at a time',
    async () => {
      for (let wave = 0; wave < 5; wave += 1) {
        const answers = await Promise.all(Array.from({ length: 120 }, () => deliver(HONEST)));
        expect(statuses(answers)).toEqual({ 202: 120 });
      }
    },
    TIMEOUT_MS,
  );

  it('answers a body that is too large before it has come, and as the replicas do', async () => {
    const [sent, answer] = open(HOSTILE, { 'content-length': 10_000_000 });
    sent.flushHeaders();
    const { status, text } = await answer;
    expect([status, JSON.parse(text)]).toMatchObject([413, { code: 'too_large', status: 413 }]);
    sent.destroy();
  });

  it.each([
    { size: 'large', bytes: BODY_LIMIT, underWay: 48, onDisk: 48 },
    { size: 'small', bytes: 10_000, underWay: 300, onDisk: 0 },
  ])(
    'keeps what $size slow bodies take within its bounds, and serves others meanwhile',
    async ({ bytes, underWay, onDisk }) => {
      const tooMany = 400 - underWay;
      const all = Array.from({ length: 400 }, () => open(HOSTILE, { 'content-length': bytes }));
      // All but the last byte.
      for (const [sent] of all) sent.write(Buffer.alloc(bytes - 1));
      const answers: Answer[] = [];
      for (const [, answer] of all) void answer.then((each) => answers.push(each));
      await eventually('answers to those that are too many', () => answers.length >= tooMany);
      expect(statuses(answers)).toEqual({ 503: tooMany });
      expect(answers.every(({ retryAfter }) => retryAfter === '5')).toBe(true);
      expect(await deliver(HONEST)).toMatchObject({ status: 202 });
      await eventually('all that may be on disk', () => kept().length === onDisk);
      expect(kept().every((size) => size <= BODY_LIMIT)).toBe(true);
      for (const [sent] of all) sent.destroy();
      await eventually('none on disk', () => kept().length === 0);
    },
    TIMEOUT_MS,
  );
});
