package queue

import (
	"context"
	"errors"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// pastReaders is the position of a writer behind readers; p is the one by the same list.
// Like them it waits first for who writes before them. When that one has held the lock and
// gone, nobody is ahead but these readers, and no list is needed to see them go. Where they
// are many a list is cheaper; and where another library's entry is among them, or that of
// the writer, somebody may come to stand ahead ([znode.Kind.Alone]).
func pastReaders(p position, names []znode.Name, self int, rules znode.Parent) position {
	first := self
	for first > 0 && names[first-1].Ours() && names[first-1].Role == znode.Shared {
		first--
	}
	readers := self - first
	if rules.Kind != znode.RW || names[self].Role == znode.Shared || readers == 0 || readers > maxAhead {
		return p
	}
	between := make([]string, 0, readers)
	for _, n := range names[first:self] {
		between = append(between, n.Node)
	}
	switch {
	case first == 0:
		return behind(between)
	case !rules.Kind.Alone(names[first-1]):
		return p
	}
	return position{predecessor: names[first-1].Node, between: between, seen: true, predecessorHolds: first == 1}
}

// behind is the position of a writer ahead of whom nobody can be but those readers.
func behind(readers []string) position {
	if len(readers) == 0 {
		return position{admitted: true}
	}
	last := len(readers) - 1
	return position{predecessor: readers[last], between: readers[:last], seen: true, predecessorHolds: true}
}

// sift looks which readers are there still, when nobody else can be ahead.
func (w *waiter) sift(ctx context.Context) error {
	readers := w.p.between
	if gone, _ := znode.Parse(w.p.predecessor); w.Kind.Alone(gone) { // they are let in just now
		w.p = behind(readers)
		return nil
	}
	settled := w.sameSessionSince()
	errs := make([]error, len(readers))
	var reads sync.WaitGroup
	for i, node := range readers {
		reads.Go(func() { _, errs[i] = w.Conn.Exists(ctx, w.parent+"/"+node) })
	}
	reads.Wait()
	var left []string
	for i, err := range errs {
		switch {
		case err == nil:
			left = append(left, readers[i])
		case !errors.Is(err, zk.ErrNoNode):
			return err
		}
	}
	if w.p = behind(left); !settled() {
		w.p = position{}
	}
	return nil
}
