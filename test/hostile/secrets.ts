import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Arrangement, type Attack, noCounts } from './attack.ts';
import { addresses, count, event, open, signed } from './wire.ts';

/**
 * Secrets as a registration may bring them, and what is left of them where a decoder drops what it does not know: nothing,
 * or a few bytes, in hex or in base64.
 */
const REGISTERED = [
  'whsec_Zm9yZ2VkLWJ5LW5vYm9keS1hdC1hbGw',
  'zz-not-a-digit-of-hex-0123456789abcdef',
  'deadbeef-and-then-no-hex-any-more-0123',
  '!!!!****????~~~~####!!!!****????~~~~',
  'QUJD=and-what-follows-the-padding-0123',
] as const;
const ENCODINGS = ['hex', 'base64'] as const;
const HOOK = 'http://127.0.0.1:1/webhooks';

/** Registered as text and served as `encoding`; or both as `encoding`, which should be said to be wrong at once. */
function arrangement(encoding: string, secret: string, registeredAs: string): Arrangement {
  const credentialsKey = randomBytes(32).toString('base64');
  return {
    settings: { WEBHOOK_SECRET_ENCODING: encoding, CREDENTIALS_KEY: credentialsKey },
    async prepare(run) {
      const upstream = createServer((incoming, response) => {
        incoming.resume();
        response.writeHead(201, { 'content-type': 'application/json' });
        response.end(JSON.stringify({ data: { id: 'wh_1', secret } }));
      });
      await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
      const { port } = upstream.address() as AddressInfo;
      await run(['register', '--url', HOOK], {
        WEBHOOK_SECRET_ENCODING: registeredAs,
        // The service's own is not decoded otherwise for the sake of this one command.
        WEBHOOK_SECRETS: '',
        COMPLIANCE_BASE_URL: `http://127.0.0.1:${port}/v1`,
        COMPLIANCE_API_KEY: 'a-key-for-the-upstream',
        LOG_LEVEL: 'warn',
      });
      upstream.close();
    },
  };
}

/** The shorter run tries no longer ones: what a decoder leaves of a secret that it cannot read is a few bytes. */
const SHORT_KEY_BYTES = 4;

/** The empty key, and each beginning of each reading of each secret; not one of them is a key that was ever given out. */
function truncatedKeys(right: string): Buffer[] {
  const keys = new Map<string, Buffer>([['', Buffer.alloc(0)]]);
  for (const text of REGISTERED) {
    for (const encoding of ['utf8', 'hex', 'base64'] as const) {
      const whole = Buffer.from(text, encoding);
      for (let bytes = 1; bytes <= whole.length; bytes++) {
        const key = whole.subarray(0, bytes);
        keys.set(key.toString('hex'), key);
      }
    }
  }
  const whole = Buffer.from(right, 'hex');
  for (let bytes = 1; bytes < whole.length; bytes++) {
    const key = whole.subarray(0, bytes);
    keys.set(key.toString('hex'), key);
  }
  return [...keys.values()];
}

/** A stored secret that is not what the setting says it is: is any key made of its remains? */
const keys: Attack = {
  unit: 'mismatched secrets, each with every truncated key',
  size: { full: REGISTERED.length, short: 1 },
  arrangements: (length) =>
    length === 'full'
      ? ENCODINGS.flatMap((encoding) =>
          REGISTERED.flatMap((secret) =>
            [encoding, 'utf8'].map((registeredAs) => arrangement(encoding, secret, registeredAs)),
          ),
        )
      : [arrangement('hex', REGISTERED[0], 'utf8')],
  async strike(target, _size, length) {
    const counts = noCounts();
    const [from] = addresses(1, 1);
    const keys = truncatedKeys(target.key).filter(
      ({ length: bytes }) => length === 'full' || bytes <= SHORT_KEY_BYTES,
    );
    for (const [nth, key] of keys.entries()) {
      const wire = open({ port: target.port, from: from! });
      wire.socket.write(signed(event(`forged_${nth}`), key));
      await wire.answers(1);
      wire.socket.destroy();
      count(counts, wire, 1);
      const [status] = wire.statuses;
      if (status !== 401) counts.faults.push(`a key of ${key.length} bytes is answered ${status}`);
    }
    return counts;
  },
};

export const SECRET_ATTACKS = { keys };
