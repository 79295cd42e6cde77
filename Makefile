# make run    the gateway of this machine, in the foreground; Ctrl-C stops it
# make test   everything that CI runs
# make bench  what a token and a turn cost, start-up, memory; PEER=http://host:port/v1 stands beside us
# make soak   mutants of what must not be wrong; then the slow and the sampled proofs, again and again, for SOAK_MINUTES (60)
# make messages  bring the catalogues of the interface up to date with the sources, and compile them
# make fmt    format the code and mend what ruff can mend

.PHONY: run test bench soak messages fmt

run:
	@sh bootstrap.sh run && exec .venv/bin/python manage.py up

test:
	@sh bootstrap.sh test && exec .venv/bin/python -m tests.run all

bench:
	@sh bootstrap.sh bench && exec .venv/bin/python -m tests.benchmarks

soak:
	@sh bootstrap.sh soak && exec .venv/bin/python -m tests.run soak

messages:
	@sh bootstrap.sh test && exec .venv/bin/python -m tests.catalogues

fmt:
	@sh bootstrap.sh test && .venv/bin/ruff check --fix . && exec .venv/bin/ruff format .
