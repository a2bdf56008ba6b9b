-- For compose.yaml, run by psql as the superuser when the database is made: one role for the mirror, which owns its own
-- database and may do nothing else. Roles with fewer rights still: docs/postgresql.md.
\set password `cat /run/secrets/mirror_password`
CREATE ROLE mirror LOGIN PASSWORD :'password';
CREATE DATABASE mirror OWNER mirror;
-- Others may enter no database unless it is given to them.
REVOKE ALL ON DATABASE mirror FROM PUBLIC;
REVOKE ALL ON DATABASE postgres FROM PUBLIC;
REVOKE ALL ON DATABASE template1 FROM PUBLIC;
