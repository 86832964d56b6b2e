package zkserver

import (
	"testing"

	"github.com/go-zookeeper/zk"
)

func TestMeterCountsAsATapDoes(t *testing.T) {
	tap := new(Tap)
	meter := &Meter{Dialer: tap.Dial}
	conn, events := dial(t, lasting, meter.Dial, External()...)
	awaitState(t, events, zk.StateHasSession)
	p := path(t, conn)
	before := meter.Counts()
	if before.Requests != 0 || before.BytesIn == 0 {
		t.Errorf("after the handshake: %+v", before)
	}
	if _, err := conn.Create(p, make([]byte, 100_000), 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := conn.Get(p); err != nil {
		t.Fatal(err)
	}
	got := meter.Counts()
	if want := tap.Counts(); got != want {
		t.Errorf("the meter counted %+v, the tap %+v", got, want)
	}
	if n := got.Requests; n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
	if in, out := got.BytesIn-before.BytesIn, got.BytesOut-before.BytesOut; in < 100_000 || out < 100_000 {
		t.Errorf("%d bytes in, %d out: more went each way", in, out)
	}
}

func TestPacketsHoweverCut(t *testing.T) {
	stream := []byte{
		0, 0, 0, 3, 1, 1, 1, // the handshake
		0, 0, 0, 0, // an empty packet
		0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 4, 7,
	}
	for size := 1; size <= len(stream); size++ {
		var s packets
		var sizes []int
		var firsts int
		for rest := stream; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			s.pass(rest[:min(size, len(rest))], func(head []byte, first bool) {
				sizes = append(sizes, len(head))
				if first {
					firsts++
				}
			})
		}
		if len(sizes) != 3 || sizes[0] != 7 || sizes[1] != 4 || sizes[2] != 12 || firsts != 1 {
			t.Errorf("in pieces of %d: heads of %d bytes, %d of them first; want 7, 4, 12, and 1", size, sizes, firsts)
		}
	}
}
