import type { Identity } from '../access.ts';
import { Frame } from './layout.tsx';
import { Title } from './pieces.tsx';

/** An error, for a person: the same words as the problem that a program gets. */
export function ProblemPage({
  status,
  title,
  detail,
  identity,
  now,
}: {
  status: number;
  title: string;
  detail: string | null;
  identity: Identity | null;
  now: number;
}) {
  return (
    <Frame title={title} current={null} identity={identity} now={now}>
      <Title note={detail}>{title}</Title>
      <p class="note">
        {status === 401 ? <a href="/sign-in">Sign in</a> : <a href="/">To the status page</a>}
      </p>
    </Frame>
  );
}
