import { REGISTRATION_PURPOSE } from '../compliance/registration.ts';
import { openSecret } from '../compliance/secrets.ts';
import type { OperatorStore } from '../store/store.ts';

export interface StoredSecrets {
  /** Keys that registrations brought: the same array until they change. */
  current(): readonly Uint8Array[];
  /** Looks again: `register` runs in a process of its own. Rejects when a stored secret cannot be opened. */
  refresh(): Promise<void>;
}

/** Signing secrets of registrations, opened in memory only. Without CREDENTIALS_KEY there are none. */
export function createStoredSecrets(options: {
  store: Pick<OperatorStore, 'listRegistrations'>;
  key: Uint8Array | null;
  encoding: 'utf8' | 'hex' | 'base64';
}): StoredSecrets {
  let sealed = '';
  let opened: readonly Uint8Array[] = [];
  return {
    current: () => opened,
    async refresh() {
      const { key } = options;
      if (key === null) return;
      const registrations = await options.store.listRegistrations();
      const texts = registrations.flatMap((registration) => registration.sealedSecret ?? []);
      const seen = texts.join('\n');
      if (seen === sealed) return;
      opened = texts.map((text) =>
        Buffer.from(openSecret(key, text, REGISTRATION_PURPOSE), options.encoding),
      );
      sealed = seen;
    },
  };
}
