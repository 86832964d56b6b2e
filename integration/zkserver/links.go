package zkserver

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
)

// maxElectionAddr bounds the address with which a member opens an election
// connection, as QuorumCnxManager.InitialMessage does.
const maxElectionAddr = 512

// links are what the members of an ensemble talk to each other through: from each of
// them to each of the others a relay to where that one listens for its followers, and one
// to where it listens for elections. A member knows the others by the addresses of its own
// relays alone.
type links map[[2]int][2]*Relay

// newLinks makes the links between members that listen on the given ports.
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

// addr returns where one member finds another, as zoo.cfg has it.
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

// redirectElection reads what a member opens an election connection with, and
// returns it with another address of that member in it. One that is called by a
// member with a lower id hangs up and calls back, at the address that it was
// told: which has to be a relay's too.
//
// The opening is a protocol version int64, below 0, the member's id int64, and
// its address, a length int32 and as many bytes; QuorumCnxManager.InitialMessage.
// Servers before 3.5 send their id alone.
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
