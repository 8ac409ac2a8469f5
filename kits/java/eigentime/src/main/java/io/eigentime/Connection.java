package io.eigentime;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonDeserializer;
import com.google.gson.JsonElement;
import com.google.gson.annotations.SerializedName;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.math.BigDecimal;
import java.net.ConnectException;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.Channels;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** A connection to the socket of a timeline, for one request. */
final class Connection implements AutoCloseable {
    static final Gson JSON = new GsonBuilder()
            .registerTypeAdapter(Instant.class, (JsonDeserializer<Instant>)
                    (ns, type, context) -> Instant.EPOCH.plusNanos(ns.getAsLong()))
            .registerTypeAdapter(Duration.class, (JsonDeserializer<Duration>)
                    (ns, type, context) -> Duration.ofNanos(ns.getAsLong()))
            .create();

    /** A request, with the version of the protocol. */
    private record Request(String method, Map<String, ?> params, int protocol) {}

    record Answer(@SerializedName("virtual_ns") Instant virtual, JsonElement result, Refusal error) {}

    record Refusal(String code, String message, String help) {}

    /** The answer of a timeline that has hung up instead. */
    private static final Answer ENDED = new Answer(null, null, new Refusal("ended", "it has ended", null));

    private final SocketChannel channel;
    final BufferedReader reader;

    Connection(Path socket) {
        try {
            channel = SocketChannel.open(UnixDomainSocketAddress.of(socket));
        } catch (IOException error) {
            if (error instanceof ConnectException || Files.notExists(socket)) {
                throw EigentimeException.ended(error);
            }
            String help = "the path of a socket has at most 107 bytes: let EIGENTIME_RUNTIME_DIR name a shorter one";
            throw new EigentimeException("connection", "cannot connect to " + socket + ": " + error, help, error);
        }
        reader = new BufferedReader(Channels.newReader(channel, StandardCharsets.UTF_8));
    }

    /** Gives up after {@code patience}. */
    Answer ask(String method, Map<String, ?> params, Duration patience) {
        var limit = new CompletableFuture<Void>();
        limit.orTimeout(patience.toMillis(), TimeUnit.MILLISECONDS).exceptionally(late -> {
            close();
            return null;
        });
        try {
            String request = JSON.toJson(new Request(method, params, 1)) + "\n";
            channel.write(StandardCharsets.UTF_8.encode(request)); // It blocks until all is written.
            Answer answer = Objects.requireNonNullElse(JSON.fromJson(reader.readLine(), Answer.class), ENDED);
            Refusal refusal = answer.error();
            if (refusal != null) {
                channel.close();
                throw new EigentimeException(refusal.code(), refusal.message(), refusal.help(), null);
            }
            return answer;
        } catch (ClosedChannelException error) {
            boolean late = limit.isDone();
            String help = late ? "if its supervisor is stopped, `kill -CONT` lets it go on" : null;
            throw new EigentimeException(
                    late ? "silent" : "connection", "the timeline has not answered: " + error, help, error);
        } catch (IOException error) {
            throw EigentimeException.ended(error);
        } finally {
            limit.complete(null);
        }
    }

    @Override
    public void close() {
        try {
            channel.close();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** An exact form of a span that both the protocol and the command line accept. */
    static String text(Duration span) {
        var seconds = BigDecimal.valueOf(span.getSeconds()).add(BigDecimal.valueOf(span.getNano(), 9));
        return (span.isNegative() ? "" : "+") + seconds.toPlainString() + "s";
    }
}
