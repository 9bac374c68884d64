-- How postgres.csv was made by PostgreSQL 15.18: psql -q -f make_postgres.sql > postgres.csv
SET TIME ZONE 'Europe/Zurich';
CREATE TEMP TABLE visits (id int, paid boolean, price double precision, at timestamptz, note text);
INSERT INTO visits VALUES
    (1, true, 4, '2024-02-29 23:30:00.25+00', E'a "b"\n,c'),
    (2, NULL, NULL, NULL, NULL),
    (3, false, 'Infinity', '2024-06-01 12:00:00+00', '');
COPY visits TO STDOUT WITH (FORMAT csv, HEADER);
