package zkserver

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
)

// maxElectionAddr is the largest address in the first message of an election connection, as in
// QuorumCnxManager.InitialMessage.
const maxElectionAddr = 512

// links has the relays between an ensemble's members: from each member to each other one, a relay
// to its port for followers and one to its election port. A member knows the others only by its own
// relays' addresses.
type links map[[2]int][2]*Relay

// newLinks creates the links between members with the given ports.
func newLinks(quorum, election []int) (links, error) {
	l := links{}
	for from := range quorum {
		for to := range quorum {
			if from == to {
				continue
			}
			toQuorum, err := newRelay(loopback(quorum[to]))
			if err != nil {
				return l, err
			}
			toElection, err := newRelay(loopback(election[to]))
			if err != nil {
				toQuorum.Close()
				return l, err
			}
			l[[2]int{from, to}] = [2]*Relay{toQuorum, toElection}
		}
	}
	for ends, relays := range l {
		back := l[[2]int{ends[1], ends[0]}][1].Addr()
		relays[1].opening = func(r io.Reader) ([]byte, error) { return redirectElection(r, back) }
	}
	l.each((*Relay).start)
	return l, nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// addr returns the address of one member for another, as in zoo.cfg.
func (l links) addr(from, to int) string {
	relays := l[[2]int{from, to}]
	_, election, _ := net.SplitHostPort(relays[1].Addr())
	return relays[0].Addr() + ":" + election
}

// between calls f for the relays between two members, in both directions.
func (l links) between(a, b int, f func(*Relay)) {
	for _, ends := range [][2]int{{a, b}, {b, a}} {
		for _, r := range l[ends] {
			f(r)
		}
	}
}

func (l links) each(f func(*Relay)) {
	for _, relays := range l {
		f(relays[0])
		f(relays[1])
	}
}

// redirectElection reads the first message of an election connection, and returns it with the
// member's address replaced. A member that is called by a member with a lower id hangs up and calls
// back at that address, which must be a relay's too.
//
// The message is a protocol version int64, below 0, the member's id int64, and its address, a
// length int32 and as many bytes; QuorumCnxManager.InitialMessage. Servers before 3.5 send only
// their id.
func redirectElection(r io.Reader, addr string) ([]byte, error) {
	opening := make([]byte, 8, 20)
	if _, err := io.ReadFull(r, opening); err != nil {
		return nil, err
	}
	if int64(binary.BigEndian.Uint64(opening)) >= 0 {
		return opening, nil
	}
	opening = opening[:20]
	if _, err := io.ReadFull(r, opening[8:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(opening[16:])
	if size > maxElectionAddr {
		return nil, fmt.Errorf("zkserver: election address of %d bytes: must be at most %d", size, maxElectionAddr)
	}
	if _, err := io.CopyN(io.Discard, r, int64(size)); err != nil {
		return nil, err
	}
	opening = binary.BigEndian.AppendUint32(opening[:16], uint32(len(addr)))
	return append(opening, addr...), nil
}
