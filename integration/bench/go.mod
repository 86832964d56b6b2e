module github.com/holdfast-io/holdfast/integration/bench

go 1.25.0

require (
	github.com/go-zookeeper/zk v1.0.4
	github.com/holdfast-io/holdfast v0.0.0
)

require (
	github.com/mattn/go-colorable v0.1.14 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/rs/zerolog v1.35.1 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	golang.org/x/sys v0.38.0 // indirect
)

replace github.com/holdfast-io/holdfast => ../..
