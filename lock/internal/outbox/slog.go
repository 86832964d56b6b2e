package outbox

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/rs/zerolog"
)

// FromSlog returns a logger whose lines go to log, as records with the same message and fields. The
// time of a record is that of the write. Lines of all levels go to log, which filters them.
func FromSlog(log *slog.Logger) zerolog.Logger { return zerolog.New(records{log.Handler()}) }

// records is the writer of the logger that FromSlog returns.
type records struct{ handler slog.Handler }

// Write passes on a line without a level.
func (r records) Write(line []byte) (int, error) { return r.WriteLevel(zerolog.NoLevel, line) }

// WriteLevel converts a line, a JSON object, to a record and passes it to the handler.
func (r records) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	ctx, at := context.Background(), slogLevel(level)
	if !r.handler.Enabled(ctx, at) {
		return len(line), nil
	}
	var fields []slog.Attr
	message, err := split(line, func(key string, value json.RawMessage) {
		fields = append(fields, slog.Attr{Key: key, Value: slogValue(value)})
	})
	if err != nil { // zerolog was built with another encoding
		fields = append(fields, slog.String("line", string(line)))
	}
	record := slog.NewRecord(time.Now(), at, message, 0)
	record.AddAttrs(fields...)
	return len(line), r.handler.Handle(ctx, record)
}

// slogLevel returns the slog level of the same name. A line without a level has level info.
func slogLevel(level zerolog.Level) slog.Level {
	if level == zerolog.NoLevel {
		return slog.LevelInfo
	}
	return slog.LevelInfo + slog.Level(level-zerolog.InfoLevel)*(slog.LevelWarn-slog.LevelInfo)
}

// slogValue converts a value of a line to a value of a record. A whole number becomes an int64.
func slogValue(text json.RawMessage) slog.Value {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return slog.StringValue(string(text))
	}
	number, ok := value.(json.Number)
	if !ok {
		return slog.AnyValue(value)
	}
	if n, err := number.Int64(); err == nil {
		return slog.Int64Value(n)
	}
	f, _ := number.Float64()
	return slog.Float64Value(f)
}
