import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { PROBLEM_REASONS, type ProblemReason, problemRule, type Resolution } from '../src/mirror/problems.ts';

const RESOLUTIONS: Readonly<Record<Resolution, string>> = {
  read: 'a read that confirms its record',
  full_sync: 'a complete full sync begun later',
  list: 'a complete full sync begun later, where the kind has a list',
};

const meaning = ({ verdict, needs }: { verdict: string; needs: 'you' | 'time' }) =>
  `\`${verdict}\`, ${needs === 'you' ? 'needs you' : 'ends by itself'}`;

function section(reason: ProblemReason): string {
  const rule = problemRule(reason);
  const verdicts = [
    meaning(rule),
    ...(rule.unlisted === undefined ? [] : [`of risk assessments ${meaning(rule.unlisted)}`]),
    ...(rule.lasting === undefined ? [] : [`from ${rule.lasting.times} times on ${meaning(rule.lasting)}`]),
  ];
  const lines = [
    rule.sentence,
    `**Verdict:** ${verdicts.join('; ')}.`,
    `**What to do:** ${rule.action}`,
    ...(rule.command === undefined ? [] : [`**Command:** \`compliance-mirror ${rule.command}\``]),
    ...(rule.resolvedBy.length === 0
      ? []
      : [`**Resolved by:** ${rule.resolvedBy.map((each) => RESOLUTIONS[each]).join('; ')}.`]),
  ];
  return `### ${reason}\n\n${lines.map((line) => `- ${line}`).join('\n')}\n`;
}

/** `npx vitest run test/problem-documents.test.ts -u` writes it. */
it('the table of reasons is what people read of them in docs/operations.md', async () => {
  const page = readFileSync(new URL('../docs/operations.md', import.meta.url), 'utf8');
  const written = page.replace(
    /(<!-- problems -->\n)[\s\S]*?(<!-- end -->)/,
    (_, begin, end) => `${begin}\n${PROBLEM_REASONS.map(section).join('\n')}\n${end}`,
  );
  await expect(written).toMatchFileSnapshot('../docs/operations.md');
});
