package locktest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// FuzzFrames: whatever a client sends, the ensemble survives and serves other clients.
func FuzzFrames(f *testing.F) {
	hello := frame(int32(0), int64(0), int32(10000), int64(0), make([]byte, 16))
	for _, seed := range [][]byte{
		{}, {0}, {0, 0, 0, 0}, {0xff, 0xff, 0xff, 0xff}, {0x7f, 0xff, 0xff, 0xff},
		frame(int32(1)), hello, hello[:20],
		frame(int32(1), int32(1), "/a", []byte("x"), open, int32(3)),
		frame(int32(1), int32(15), "/a", []byte(nil), open, int32(2)),
		frame(int32(1), int32(2), "/a", int32(-1)),
		frame(int32(1), int32(4), "/a", true),
		frame(int32(1), int32(5), "/a", []byte("x"), int32(-1)),
		frame(int32(1), int32(6), "/"),
		frame(int32(1), int32(7), "/", open, int32(-1)),
		frame(int32(1), int32(9), "/"),
		frame(int32(-2), int32(11)),
		frame(int32(1), int32(12), "/", true),
		frame(int32(1), int32(14), int32(1), false, int32(-1), "/a", []byte("x"), open, int32(2),
			int32(13), false, int32(-1), "/", int32(0), int32(-1), true, int32(-1)),
		frame(int32(1), int32(14), int32(1<<30), false, int32(-1)),
		frame(int32(1), int32(100), int32(0), "digest", []byte("a:b")),
		frame(int32(1), int32(101), int64(0), []string{"/a", ""}, []string{"/", "x"}, []string{"/"}),
		frame(int32(1), int32(101), int64(0), int32(1<<31-1)),
		frame(int32(1), int32(-11)),
	} {
		f.Add(true, seed)
		f.Add(false, seed)
	}
	f.Fuzz(func(t *testing.T, greeted bool, data []byte) {
		ens := locktest.Start(t, locktest.Options{})
		other := dialRaw(t, ens.Servers(), ens.Dial)
		iferr.Fatal(t, other.handshake(time.Minute))
		c := dialRaw(t, ens.Servers(), ens.Dial)
		if greeted {
			data = slices.Concat(hello, data)
		}
		for chunk := range slices.Chunk(data, 7) { // frames come in pieces
			if _, err := c.Write(chunk); err != nil {
				break
			}
		}
		c.Close()
		other.must(9, "/")
		if len(ens.Dump("/")) < 4 {
			t.Error("the server's own nodes are gone")
		}
	})
}
