# Each target is one script, which works without make too.
.PHONY: build run test deep bench evaluate gate-real gate-cuda dist lint format clean
build:
	@scripts/setup build
	@scripts/build release crosscheck
run:
	@scripts/run
test:
	@scripts/test
deep:
	@scripts/deep
dist:
	@scripts/setup build
	@scripts/dist
lint:
	@scripts/setup lint
	@scripts/lint
bench:
	@scripts/bench
evaluate:
	@scripts/evaluate
gate-real:
	@scripts/gate-real
gate-cuda:
	@scripts/gate-real --backends cuda
format:
	@scripts/setup lint
	@scripts/format
clean:
	rm -rf build
