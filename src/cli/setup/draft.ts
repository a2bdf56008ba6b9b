import { parseEnv } from 'node:util';
import { type Config, loadConfig } from '../../platform/config.ts';
import { UsageError } from '../../platform/errors.ts';
import { ENV_FILE, isSetBy, readEnvText, withEnvText } from '../env-file.ts';
import { withSetting, writeEnvText } from './env-text.ts';

/** The settings as they will be: the text of `.env`, changed in memory until it is written. */
export interface Draft {
  /** As a command sees them: the environment's own win. */
  env(): NodeJS.ProcessEnv;
  get(name: string): string | undefined;
  /** The environment has the last word on it, and no file changes that. */
  isFixed(name: string): boolean;
  /** `otherwise` is the default, which needs no line. NAME takes the place of NAME_FILE, and the other way round. Returns what takes it back. */
  set(name: string, value: string, otherwise?: string): () => void;
  /** What is wrong with this setting alone; null: nothing. */
  problemOf(name: string): string | null;
  config(): Config;
  isChanged(): boolean;
  /** The file's settings as they would be written, secrets left out. */
  shown(): [name: string, value: string][];
  write(): void;
}

export function createDraft(environment: NodeJS.ProcessEnv, path = ENV_FILE): Draft {
  let written = readEnvText(path);
  let text = written;
  const env = () => withEnvText(environment, text);
  return {
    env,
    get: (name) => env()[name] || undefined,
    isFixed: (name) => isSetBy(environment, name),
    set(name, value, otherwise) {
      const before = text;
      const other = name.endsWith('_FILE') ? name.replace(/_FILE$/, '') : `${name}_FILE`;
      const alone = withSetting(text, other, null);
      const held = parseEnv(text)[name];
      // An empty line, and one that says what the default says, is what somebody left there: it may stay.
      const isSaid = held === value || (value === otherwise && (held ?? '') === '');
      text = isSaid ? alone : withSetting(alone, name, value === otherwise ? null : value);
      return () => {
        text = before;
      };
    },
    problemOf(name) {
      const lines = problemsIn(env());
      return lines.find((line) => line.startsWith(`${name}:`) || line.startsWith(`${name}_FILE:`)) ?? null;
    },
    config: () => loadConfig(env()),
    isChanged: () => text !== written,
    shown: () =>
      Object.entries(parseEnv(text)).map(([name, value = '']) => [
        name,
        isPlain(name) || value === '' ? value : '(hidden)',
      ]),
    write() {
      if (readEnvText(path) !== written) {
        throw new UsageError(
          `${path} was changed by somebody else meanwhile`,
          'run setup again: it begins with what is there',
        );
      }
      writeEnvText(path, written, text);
      written = text;
    },
  };
}

function problemsIn(env: NodeJS.ProcessEnv): string[] {
  try {
    loadConfig(env);
    return [];
  } catch (error) {
    if (error instanceof UsageError) return error.message.split('\n');
    throw error;
  }
}

/** What setup asks for or finds out, and may be shown. Everything else in the file may be a secret. */
const SHOWN: ReadonlySet<string> = new Set([
  ...['COMPLIANCE_BASE_URL', 'COMPLIANCE_AUTH', 'COMPLIANCE_AUTH_URL', 'COMPLIANCE_CLIENT_ID'],
  ...[
    'COMPLIANCE_REDIRECT_URI',
    'COMPLIANCE_PAGE_PARAM',
    'COMPLIANCE_PER_PAGE_PARAM',
    'COMPLIANCE_FIRST_PAGE',
  ],
  ...['ID_POINTERS_POLICY', 'ID_POINTERS_RISK_ASSESSMENT', 'ID_POINTERS_VENDOR', 'WEBHOOK_SIGNED_CONTENT'],
  ...['WEBHOOK_SIGNATURE_HEADER', 'WEBHOOK_SIGNATURE_ALGORITHM', 'WEBHOOK_SECRET_ENCODING'],
]);
const isPlain = (name: string) => SHOWN.has(name) || name.endsWith('_FILE');
