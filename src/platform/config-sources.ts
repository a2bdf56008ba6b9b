import { readFileSync, statSync } from 'node:fs';
import { aboutSetting, SETTING_NAMES, type SettingName } from './settings.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** Where the text of a setting is from. `path`: the file that NAME_FILE names. */
export interface Source {
  text: string;
  path: string | null;
}

/** The texts of the settings that are set, from `NAME` or from the file that `NAME_FILE` names, and a line for each that cannot be had. */
export function readSources(env: Environment) {
  const found = new Map<SettingName, Source>();
  const problems: string[] = [];
  for (const name of SETTING_NAMES) {
    try {
      const source = sourceOf(env, name);
      if (source !== null) found.set(name, source);
    } catch (error) {
      problems.push((error as Error).message);
    }
  }
  return { found, problems };
}

/** Null: it is not set. Throws an Error that says why its text cannot be had. */
export function sourceOf(env: Environment, name: string): Source | null {
  const text = env[name] || null;
  const path = env[`${name}_FILE`] || null;
  if (text !== null && path !== null)
    throw new Error(`${name} and ${name}_FILE are both set; set one of them`);
  if (path === null) return text === null ? null : { text: unquoted(name, text), path };
  let content: string;
  try {
    content = readSettingFile(path);
  } catch (error) {
    throw new Error(`${name}_FILE: ${path} cannot be read (${(error as Error).message})`);
  }
  return { text: unquoted(`${name}_FILE: ${path}`, content), path };
}

/** No setting begins and ends with a quote: what put it there was meant to take it away. */
function unquoted(where: string, text: string): string {
  const quote = text.charAt(0);
  if (text.length < 2 || !/["'`]/.test(quote) || !text.endsWith(quote)) return text;
  throw new Error(
    `${where}: begins and ends with a quote (${text[0]}), which is taken as a part of it; write it without quotes (docker’s --env-file, for one, keeps them)`,
  );
}

/** For people who ask what a process runs with. */
export interface ListedSetting {
  name: SettingName;
  /** As it is set, or its default; null: neither. Of a secret, too: show no more of it than a fingerprint. */
  value: string | null;
  source: 'environment' | '.env' | 'file' | 'default';
  /** The file that NAME_FILE names. */
  path: string | null;
  isSecret: boolean;
  isAdvanced: boolean;
}

/** Every setting of `env`, which has those of `.env` too. `outer`: the environment without them. What cannot be read counts as null. */
export function listedSettings(env: Environment, outer: Environment = env): ListedSetting[] {
  const { found } = readSources(env);
  return SETTING_NAMES.map((name) => {
    const about = aboutSetting(name);
    const source = found.get(name);
    const path = env[`${name}_FILE`] || null;
    const isOuter = (outer[name] || outer[`${name}_FILE`] || '') !== '';
    const isSet = (env[name] || path || '') !== '';
    return {
      name,
      value: source?.text ?? (isSet ? null : about.otherwise),
      source: !isSet ? 'default' : path !== null ? 'file' : isOuter ? 'environment' : '.env',
      path,
      isSecret: about.isSecret === true,
      isAdvanced: about.isAdvanced,
    };
  });
}

// ─── files that change ──────────────────────────────────────────────────────────────────────────────────

/** A secret's value now. `again`: the server has refused the value, so its file is read whatever its date says. */
export type Secret<Value> = (again?: 'again') => Value;

/** How often a secret's file is looked at: a rotation can wait this long, and not every delivery should wait for a stat. */
const SECRET_FILE_CHECK_MS = 1000;

/** Follows the file at `path`. `parse` throws for a text that cannot be used; then the last good value stays. */
export function watchedFile<Value>(
  path: string,
  first: Value,
  parse: (text: string) => Value,
  complain: (why: string) => void,
): Secret<Value> {
  let value = first;
  let seen = fingerprint(path);
  let checkedAt = performance.now();
  return (again) => {
    const now = performance.now();
    if (again === undefined && now - checkedAt < SECRET_FILE_CHECK_MS) return value;
    checkedAt = now;
    const current = fingerprint(path);
    const isSeen = current === seen;
    if (again === undefined && isSeen) return value;
    seen = current;
    try {
      value = parse(readSettingFile(path));
    } catch (error) {
      if (!isSeen) complain(codeOrMessage(error));
    }
    return value;
  };
}

/** Includes the inode, because a mounted secret is replaced by a rename. Of a file that cannot be reached: why. */
function fingerprint(path: string): string {
  try {
    const { ino, mtimeMs, size } = statSync(path);
    return `${ino}:${mtimeMs}:${size}`;
  } catch (error) {
    return codeOrMessage(error);
  }
}

function codeOrMessage(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code ?? message;
}

/** The content without line breaks at its end, and without the byte order mark that some editors write. */
function readSettingFile(path: string): string {
  const content = readFileSync(path, 'utf8').replace(/^\uFEFF?(.*[^\r\n])?[\r\n]*$/s, '$1');
  if (content === '') throw new Error('the file is empty');
  return content;
}

// ─── unknown names ──────────────────────────────────────────────────────────────────────────────────────

/** First words of our settings that other programs hardly use. PORT, HOST or LOG are not among them. */
const OUR_NAMES =
  /^(DATABASE|WEBHOOK|COMPLIANCE|SYNC|OPS|ID_POINTERS|FIELD_POINTERS|DELETED_MARKERS|IGNORED_FIELDS|RISK_IDS|RETENTION|CREDENTIALS|NOTIFY)_/;
/** Kubernetes sets these names in every container, for each service of the namespace. */
const ORCHESTRATOR_NAMES = /_(SERVICE_HOST|PORT)$|_SERVICE_PORT_|_PORT_\d{1,5}_(TCP|UDP)(_|$)/;

/** A line for each unknown name that begins like ours. */
export function unknownNames(env: Environment): string[] {
  const names = new Set<string>(SETTING_NAMES);
  return Object.keys(env).flatMap((given) => {
    const name = names.has(given) ? given : given.replace(/_FILE$/, '');
    const isOurs = OUR_NAMES.test(name) && !ORCHESTRATOR_NAMES.test(name);
    return env[given] === '' || names.has(name) || !isOurs
      ? []
      : [`${given}: no such setting; it has no effect`];
  });
}
