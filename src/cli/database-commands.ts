import { Command } from 'commander';
import { GRANT } from '../compliance/oauth.ts';
import { sealSecret } from '../compliance/secrets.ts';
import { bytes } from '../ops/words.ts';
import { type Clock, momentOf, systemClock } from '../platform/clock.ts';
import { readCredentialsKey } from '../platform/config.ts';
import { describeError, MirrorError, UsageError } from '../platform/errors.ts';
import { openedText } from '../service/signing-secrets.ts';
import type { Lease, SealedText, Store } from '../store/store.ts';
import { type Cli, writeText } from './cli.ts';
import { clockOf, configHere, engines, withStore } from './database.ts';
import { helpNote } from './options.ts';
import { printable } from './text.ts';

interface BackupFlags {
  force?: true;
}

export function backupCommand(cli: Cli): Command {
  return new Command('backup')
    .description('copy the database into one file, also while the service runs')
    .argument('<file>', 'file to write; readable for its owner alone')
    .option('--force', 'replace a file that is there already')
    .action(async (file: string, { force }: BackupFlags) => {
      const config = configHere(cli, 'backup');
      const size = await (await engines()).backUpStore(config.databaseUrl, {
        to: file,
        force: force === true,
      });
      cli.out.write(`Backed up and checked: ${bytes(size)}, in ${printable(file)}\n`);
      const entry = { actor: 'cli', action: 'backup', outcome: 'ok', target: file };
      // The backup is made, and matters more.
      await withStore(cli, 'write', (store) => store.audit(entry, momentOf(systemClock()))).catch((error) =>
        cli.err.write(`Note: this is not in the audit: ${printable(describeError(error))}\n`),
      );
    });
}

export function restoreCommand(cli: Cli): Command {
  return new Command('restore')
    .description("put a backup in the place of a stopped service's database")
    .argument('<file>', 'file that "backup" has made')
    .addHelpText(
      'after',
      helpNote(
        'The database that was there before is gone. What was accepted since the backup was made is not in it: lists are read again from the API, and risk assessments are not in sync until you have seen to the problem "restored" ("problems").',
      ),
    )
    .action(async (file: string) => {
      const config = configHere(cli, 'restore');
      const size = await (await engines()).restoreStore(config.databaseUrl, file);
      cli.out.write(
        `Restored and checked: ${bytes(size)}. Start the service, then see to “restored” (“problems”).\n`,
      );
    });
}

export function migrateCommand(cli: Cli): Command {
  return new Command('migrate')
    .description('make the database, or bring its tables up to this version; "serve" does it by itself')
    .action(async () => {
      configHere(cli, 'migrate');
      await withStore(cli, 'alone', async () => {
        cli.out.write('The database is up to date.\n');
      });
    });
}

/** Renewing tokens takes one request and two writes. A renewal that takes longer than this is stuck. */
const RENEWAL_PATIENCE_MS = 60_000;
const LOOK_EVERY_MS = 200;

export function rotateKeyCommand(cli: Cli): Command {
  return new Command('rotate-key')
    .description('encrypt every stored secret with a new CREDENTIALS_KEY')
    .requiredOption('--new-key-file <file>', 'holds the new key: 32 bytes in base64')
    .addHelpText(
      'after',
      helpNote(
        'All secrets change in one commit, or none does: if the old key does not open all of them, nothing changes.',
        'Then put the new key in the place of the old one. A running service reads CREDENTIALS_KEY_FILE again by itself:',
        '  openssl rand -base64 32 > new.key &&',
        '  compliance-mirror rotate-key --new-key-file new.key &&',
        '  mv new.key "$CREDENTIALS_KEY_FILE"',
      ),
    )
    .action((options: { newKeyFile: string }) => rotateKey(cli, options.newKeyFile));
}

async function rotateKey(cli: Cli, path: string): Promise<void> {
  const why = 'a key does not travel over the operators’ listener';
  const { credentialsKey: key } = configHere(cli, 'rotate-key', why);
  if (key === null) throw new UsageError('CREDENTIALS_KEY is not set: it is the old key');
  const fresh = readCredentialsKey(path, '--new-key-file');
  if (Buffer.from(fresh).equals(key)) {
    throw new UsageError('--new-key-file holds the present key', 'make one with: openssl rand -base64 32');
  }
  await withStore(cli, 'write', async (store) => {
    const count = await reseal(store, key, fresh);
    cli.out.write(
      count === null
        ? 'The stored secrets are encrypted with that key already.\n'
        : `Encrypted anew: ${count}. Only the key in ${path} opens them now.\n`,
    );
    writeText(
      cli.out,
      'Put that key in the place of the old one (CREDENTIALS_KEY, or its file). A running service keeps the secrets that it has open and reads the file again by itself. If CREDENTIALS_KEY itself was set, restart the service.',
    );
  });
}

/** Resolves with how many secrets were encrypted anew; null: the new key opens all of them already. */
async function reseal(store: Store, key: Uint8Array, fresh: Uint8Array): Promise<number | null> {
  const clock = await clockOf(store);
  const lease = await tokensLease(store, clock);
  let count: number | null = null;
  try {
    await store.reseal((present) => {
      const isFresh = (text: SealedText) => openedText(text, fresh) !== null;
      // After an earlier rotation, "webhook register" or "login" may still have stored something with the old key.
      const old = present.filter((text) => !isFresh(text));
      const closed = old.filter((text) => openedText(text, key) === null);
      if (closed.length > 0) {
        throw new UsageError(
          `these do not open with CREDENTIALS_KEY, and nothing was changed: ${closed.map(nameOf).join(', ')}`,
          'set CREDENTIALS_KEY to the key they were stored with; if it is lost: "webhook forget", and "login" again',
        );
      }
      if (old.length === 0 && present.length > 0) return null;
      count = old.length;
      const resealed = present.map((text) =>
        isFresh(text) ? text.sealed : sealSecret(fresh, openedText(text, key) ?? '', text),
      );
      return {
        resealed,
        entry: { actor: 'cli', action: 'rotate_key', outcome: `ok:${count}`, target: null },
      };
    }, momentOf(clock));
  } finally {
    await store.releaseLease(lease);
  }
  return count;
}

/** Nobody renews the tokens while this is held: a renewal uses up what it has read. */
async function tokensLease(store: Store, clock: Clock): Promise<Lease> {
  const owner = `rotate-key ${process.pid}`;
  for (const until = clock.steady() + RENEWAL_PATIENCE_MS; ; await clock.sleep(LOOK_EVERY_MS)) {
    const lease = await store.takeLease(GRANT, owner, RENEWAL_PATIENCE_MS, clock.wall());
    if (lease !== null) return lease;
    if (clock.steady() <= until) continue;
    throw new MirrorError('busy', 'the tokens are being renewed, and nothing was changed', {
      retryable: true,
      remedy: 'try again in a minute',
    });
  }
}

const nameOf = ({ table, row }: SealedText): string => `${table} ${row}`;
