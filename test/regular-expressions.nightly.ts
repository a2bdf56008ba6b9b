import { globSync, readFileSync } from 'node:fs';
import { ts } from '@ts-morph/common';
import { checkSync } from 'recheck';
import { expect, test } from 'vitest';
import { DATE, INSTANT, NO_DAY, TIMESTAMP } from '../src/mirror/flat-columns.ts';

/** The checker's own compiled forms need a JVM or a binary for this machine; this one runs everywhere. */
process.env['RECHECK_SYNC_BACKEND'] = 'pure';

/**
 * For one pattern, in milliseconds: the dearest takes seconds on a busy machine. The checker's other way, random attacks,
 * would depend on how busy that is; a pattern that only those can judge is to be written more simply.
 */
const TIMEOUT_MS = 60_000;

/** Made of parts that are constants, which the views of PostgreSQL use too. */
const BUILT: Readonly<Record<string, readonly string[]>> = {
  'src/mirror/flat-columns.ts': [DATE, TIMESTAMP, INSTANT, NO_DAY],
};

interface Found {
  at: string;
  /** Null where the pattern is made at run time. */
  literal: string | null;
}

function patternsOf(path: string): Found[] {
  const kind = path.endsWith('x') ? ts.ScriptKind.TSX : ts.ScriptKind.TS;
  const source = ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.Latest, true, kind);
  const found: Found[] = [];
  const visit = (node: ts.Node): void => {
    const at = `${path}:${source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1}`;
    if (ts.isRegularExpressionLiteral(node)) found.push({ at, literal: node.text });
    if (
      (ts.isNewExpression(node) || ts.isCallExpression(node)) &&
      node.expression.getText(source) === 'RegExp'
    ) {
      const built = BUILT[path]?.map((pattern) => ({ at, literal: `/${pattern}/` }));
      found.push(...(built ?? [{ at, literal: null }]));
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

/** `safe`, or what is wrong, with the text that shows it. */
function judge(literal: string): string {
  const end = literal.lastIndexOf('/');
  const verdict = checkSync(literal.slice(1, end), literal.slice(end + 1), {
    checker: 'automaton',
    timeout: TIMEOUT_MS,
  });
  if (verdict.status === 'safe') return 'safe';
  if (verdict.status === 'unknown') return `unknown: ${verdict.error.kind}`;
  return `${verdict.complexity.summary}, by ${verdict.attack.pattern}`;
}

test('every regular expression takes time in proportion to what it reads, so that nobody can freeze the service with one', () => {
  const found = globSync('{src,sandbox}/**/*.{ts,tsx}').flatMap(patternsOf);
  expect(found.length).toBeGreaterThan(100);
  const verdicts = new Map<string, string>();
  const faults = found.flatMap(({ at, literal }) => {
    if (literal === null) return [`${at}: made at run time, where nothing can judge it`];
    if (!verdicts.has(literal)) verdicts.set(literal, judge(literal));
    const verdict = verdicts.get(literal);
    return verdict === 'safe' ? [] : [`${at}: ${literal} is ${verdict}`];
  });
  expect(faults).toEqual([]);
});

test('the checker sees what makes a pattern slow', () => {
  // A no-break space is white to JavaScript, and Node leaves it in a header's value.
  expect(judge('/^\\s*(identity)?\\s*$/i')).toContain('polynomial');
  expect(judge('/^(a+)+$/')).toContain('exponential');
});
