package outbox

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/rs/zerolog"
)

// lateness is the delay from which a line has the field late_by.
const lateness = time.Second

// Logger returns a logger whose lines the outbox writes to log, with the level, context, hooks
// and sampler of log. Hooks run when the outbox writes a line. So they may block, too, and a
// timestamp is the time of the write.
//
// A line that is written a second late or more has the field late_by. The first line after dropped
// lines has the field lines_dropped.
func (o *Outbox) Logger(log zerolog.Logger) zerolog.Logger {
	return zerolog.New(&lines{outbox: o, log: log}).Level(log.GetLevel())
}

// lines is the writer of the logger that Outbox.Logger returns.
type lines struct {
	outbox *Outbox
	log    zerolog.Logger
	told   uint64 // number of drops already reported in lines_dropped; only deliveries use it
}

// Write puts a line without a level into the outbox.
func (l *lines) Write(line []byte) (int, error) { return l.WriteLevel(zerolog.NoLevel, line) }

// WriteLevel puts a line, a JSON object, into the outbox.
func (l *lines) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	line, at := bytes.Clone(line), time.Now()
	l.outbox.Put(func() { l.deliver(level, line, time.Since(at)) })
	return len(line), nil
}

// deliver writes the fields of the line as an event of the user's logger.
func (l *lines) deliver(level zerolog.Level, line []byte, late time.Duration) {
	event := l.log.WithLevel(level)
	if !event.Enabled() {
		return
	}
	message, err := split(line, func(key string, value json.RawMessage) { event.RawJSON(key, value) })
	if err != nil { // zerolog was built with another encoding
		event.Bytes("line", line)
	}
	if late >= lateness {
		event.Stringer("late_by", late.Round(time.Millisecond))
	}
	if dropped := l.outbox.Dropped(); dropped > l.told {
		event.Uint64("lines_dropped", dropped-l.told)
		l.told = dropped
	}
	event.Msg(message)
}

// split calls field for each field of a line except its level and message, and returns the message.
func split(line []byte, field func(key string, value json.RawMessage)) (message string, err error) {
	fields := json.NewDecoder(bytes.NewReader(line))
	_, err = fields.Token() // the opening brace
	for err == nil && fields.More() {
		var key json.Token
		var value json.RawMessage
		if key, err = fields.Token(); err == nil {
			err = fields.Decode(&value)
		}
		switch {
		case err != nil, key == zerolog.LevelFieldName:
		case key == zerolog.MessageFieldName:
			err = json.Unmarshal(value, &message)
		default:
			field(key.(string), value)
		}
	}
	return message, err
}
