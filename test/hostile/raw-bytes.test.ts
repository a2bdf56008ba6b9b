import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openStage, type Stage } from './stage.ts';
import { event, forgedHeader, open, post, SIGNATURE, signed, type Wire, write } from './wire.ts';

const FROM = '127.0.22.1';
const RUNS = 300;

/** Pieces that a parser of HTTP takes for something. */
const PIECES = [
  ...[
    '\r\n',
    '\n',
    '\r',
    '\r\n\r\n',
    ' ',
    '\t',
    '\0',
    ':',
    ';',
    ',',
    '0',
    '-1',
    '\u00a0',
    '\u00ff',
    '%00',
    '"',
  ],
  ...['Transfer-Encoding: chunked\r\n', 'Content-Length: 3\r\n', 'Host: b\r\n', 'Expect: 100-continue\r\n'],
  ...[
    'Connection: close\r\n',
    'Upgrade: h2c\r\n',
    'HTTP/1.1',
    'HTTP/1.0',
    'POST ',
    `${SIGNATURE}: t=1, v1=\r\n`,
  ],
].map((text) => Buffer.from(text, 'latin1'));

type Change =
  | { do: 'flip'; at: number; by: number }
  | { do: 'insert'; at: number; bytes: Uint8Array }
  | { do: 'cut'; at: number; length: number }
  | { do: 'repeat'; at: number; length: number };

const anywhere = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const changes: fc.Arbitrary<Change> = fc.oneof(
  fc.record({ do: fc.constant('flip' as const), at: anywhere, by: fc.integer({ min: 1, max: 255 }) }),
  fc.record({
    do: fc.constant('insert' as const),
    at: anywhere,
    bytes: fc.oneof(fc.constantFrom(...PIECES), fc.uint8Array({ minLength: 1, maxLength: 20 })),
  }),
  fc.record({ do: fc.constant('cut' as const), at: anywhere, length: fc.integer({ min: 1, max: 40 }) }),
  fc.record({ do: fc.constant('repeat' as const), at: anywhere, length: fc.integer({ min: 1, max: 200 }) }),
);

function changed(bytes: Buffer, change: Change): Buffer {
  const at = Math.floor(change.at * bytes.length);
  const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)];
  switch (change.do) {
    case 'flip': {
      const copy = Buffer.from(bytes);
      if (copy.length > 0) copy[at]! ^= change.by;
      return copy;
    }
    case 'insert':
      return Buffer.concat([before, change.bytes, after]);
    case 'cut':
      return Buffer.concat([before, after.subarray(change.length)]);
    case 'repeat':
      return Buffer.concat([before, after.subarray(0, change.length), after]);
  }
}

describe.skipIf(process.platform !== 'linux')('whatever bytes come over a connection', () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await openStage({});
    await stage.begin();
  });
  afterAll(async () => {
    const { faults, bystanders } = await stage.end();
    expect(faults).toEqual([]);
    expect(bystanders.map(({ name, failures }) => ({ name, failures }))).toEqual(
      bystanders.map(({ name }) => ({ name, failures: [] })),
    );
    expect(await stage.close()).toEqual([]);
  });

  /** Says them, and that nothing more follows; resolves when the service has ended the connection too. */
  async function say(port: number, bytes: Buffer): Promise<Wire> {
    const wire = open({ port, from: FROM });
    await write(wire, bytes);
    wire.socket.end();
    await wire.ended;
    return wire;
  }

  function expectNoSuccess({ garbage, statuses }: Wire): void {
    expect(garbage).toBeNull();
    expect(statuses.filter((status) => status >= 200 && status < 400)).toEqual([]);
  }

  const unsigned = fc.constantFrom(
    post(event('unsigned')),
    post(event('forged'), { [SIGNATURE]: forgedHeader() }),
    post('', { 'Content-Encoding': 'gzip' }),
    Buffer.from(
      `POST /webhooks HTTP/1.1\r\nHost: a\r\n${SIGNATURE}: ${forgedHeader()}\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
    ),
    Buffer.from('GET /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer none\r\n\r\n'),
  );

  it('a changed request gets well-formed answers or none, and no success without a right signature', async () => {
    await fc.assert(
      fc.asyncProperty(
        unsigned,
        fc.array(changes, { maxLength: 6 }),
        fc.boolean(),
        async (bytes, all, ops) => {
          const { port, opsPort } = stage.target;
          expectNoSuccess(await say(ops ? opsPort : port, all.reduce(changed, bytes)));
        },
      ),
      { numRuns: RUNS },
    );
  });

  it('noise gets well-formed answers or none', async () => {
    const noise = fc
      .array(fc.oneof(fc.constantFrom(...PIECES), fc.uint8Array({ maxLength: 300 })), { maxLength: 20 })
      .map((parts) => Buffer.concat(parts));
    await fc.assert(
      fc.asyncProperty(noise, fc.boolean(), async (bytes, ops) => {
        expectNoSuccess(await say(ops ? stage.target.opsPort : stage.target.port, bytes));
      }),
      { numRuns: RUNS },
    );
  });

  it('a signed delivery is accepted as it was signed, and with a changed body never', async () => {
    const key = () => Buffer.from(stage.target.key, 'hex');
    let nth = 0;
    await fc.assert(
      fc.asyncProperty(changes, async (change) => {
        const body = Buffer.from(event(`signed_${nth++}`));
        const request = signed(body, key());
        const other = changed(body, change);
        const head = request.subarray(0, request.length - body.length).toString('latin1');
        const forged = Buffer.concat([
          Buffer.from(
            head.replace(`Content-Length: ${body.length}`, `Content-Length: ${other.length}`),
            'latin1',
          ),
          other,
        ]);
        const whole = other.equals(body);
        expect((await say(stage.target.port, forged)).statuses).toEqual([whole ? 202 : 401]);
        expect((await say(stage.target.port, request)).statuses).toEqual([whole ? 200 : 202]);
      }),
      { numRuns: RUNS / 3 },
    );
  });
});
