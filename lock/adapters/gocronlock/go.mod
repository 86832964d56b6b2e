module github.com/holdfast-io/holdfast/lock/adapters/gocronlock

go 1.25.0

require (
	github.com/go-co-op/gocron/v2 v2.21.2
	github.com/google/uuid v1.6.0
	github.com/holdfast-io/holdfast v0.0.0
	github.com/robfig/cron/v3 v3.0.1
)

require (
	github.com/go-zookeeper/zk v1.0.4 // indirect
	github.com/jonboulle/clockwork v0.5.0 // indirect
	github.com/mattn/go-colorable v0.1.16 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/rs/zerolog v1.35.1 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

replace github.com/holdfast-io/holdfast => ../../..
