module github.com/holdfast-io/holdfast/integration/playground

go 1.25.0

require (
	github.com/chromedp/chromedp v0.14.2
	github.com/go-zookeeper/zk v1.0.4
	github.com/holdfast-io/holdfast v0.0.0
	github.com/holdfast-io/holdfast/integration/statuspage v0.0.0
	github.com/rs/zerolog v1.35.1
)

require (
	github.com/chromedp/cdproto v0.0.0-20250724212937-08a3db8b4327 // indirect
	github.com/chromedp/sysutil v1.1.0 // indirect
	github.com/go-json-experiment/json v0.0.0-20250725192818-e39067aee2d2 // indirect
	github.com/gobwas/httphead v0.1.0 // indirect
	github.com/gobwas/pool v0.2.1 // indirect
	github.com/gobwas/ws v1.4.0 // indirect
	github.com/klauspost/compress v1.19.1 // indirect
	github.com/mattn/go-colorable v0.1.16 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

replace (
	github.com/holdfast-io/holdfast => ../..
	github.com/holdfast-io/holdfast/integration/statuspage => ../statuspage
)
