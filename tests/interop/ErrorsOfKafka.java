import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.ApiVersions;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.internals.TransactionManager;
import org.apache.kafka.clients.producer.internals.TransactionalRequestResult;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.AddOffsetsToTxnResponseData;
import org.apache.kafka.common.message.AddPartitionsToTxnResponseData;
import org.apache.kafka.common.message.AddPartitionsToTxnResponseData.AddPartitionsToTxnPartitionResult;
import org.apache.kafka.common.message.AddPartitionsToTxnResponseData.AddPartitionsToTxnPartitionResultCollection;
import org.apache.kafka.common.message.AddPartitionsToTxnResponseData.AddPartitionsToTxnTopicResult;
import org.apache.kafka.common.message.EndTxnResponseData;
import org.apache.kafka.common.message.FindCoordinatorResponseData;
import org.apache.kafka.common.message.InitProducerIdResponseData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.AddOffsetsToTxnResponse;
import org.apache.kafka.common.requests.AddPartitionsToTxnResponse;
import org.apache.kafka.common.requests.EndTxnResponse;
import org.apache.kafka.common.requests.FindCoordinatorResponse;
import org.apache.kafka.common.requests.InitProducerIdResponse;
import org.apache.kafka.common.requests.TxnOffsetCommitResponse;
import org.apache.kafka.common.utils.LogContext;

/**
 * Tells of every error code the classes of its exception, and what the TransactionManager of Java's producer makes of
 * it as the answer to each request of a transaction, of version 1 and 2: its state afterwards, and what it asks next.
 */
public class ErrorsOfKafka {
    private static final TopicPartition PLACE = new TopicPartition("flights", 0);
    private static final ConsumerGroupMetadata GROUP = new ConsumerGroupMetadata("group", -1, "", Optional.empty());
    private static final List<String> REQUESTS = List.of(
        "PRODUCE", "FIND_COORDINATOR", "INITIALIZE", "ADD_PARTITIONS", "ADD_OFFSETS", "COMMIT_OFFSETS", "END");
    // What leaders and group coordinators do by themselves in transactions of version 2.
    private static final List<String> OF_VERSION_1 = List.of("ADD_PARTITIONS", "ADD_OFFSETS");

    private final TransactionManager manager =
        new TransactionManager(new LogContext(), "billing-1", 60_000, 100L, new ApiVersions(), false);

    private final int version;

    public static void main(String[] arguments) throws Exception {
        for (Errors error : Errors.values()) {
            if (error == Errors.NONE) {
                continue;
            }
            List<String> classes = new ArrayList<>();
            for (Class<?> each = error.exception().getClass(); each != Exception.class; each = each.getSuperclass()) {
                classes.add(each.getSimpleName());
            }
            System.out.println("code|" + error.code() + "|" + error.name() + "|" + String.join(" ", classes));
            for (int version = 1; version <= 2; version++) {
                for (String request : REQUESTS) {
                    if (version == 1 || !OF_VERSION_1.contains(request)) {
                        String answer = new ErrorsOfKafka(version).answer(request, error);
                        System.out.println("answer|" + version + "|" + request + "|" + error.code() + "|" + answer);
                    }
                }
            }
        }
    }

    private ErrorsOfKafka(int version) throws Exception {
        this.version = version;
        // As every broker since 2.5 lets it (KIP-360).
        field("coordinatorSupportsBumpingEpoch").set(manager, true);
    }

    private String answer(String request, Errors error) throws Exception {
        Object asked = null;
        if (request.equals("FIND_COORDINATOR")) {
            manager.initializeTransactions(false);
            Object waiting = next();
            call(TransactionManager.class, manager, "lookupCoordinator", waiting);
            asked = next();
        } else if (request.equals("INITIALIZE")) {
            manager.initializeTransactions(false);
            asked = next();
        } else {
            TransactionalRequestResult beginning = manager.initializeTransactions(false);
            respond(next(), response("INITIALIZE", Errors.NONE));
            beginning.await(1, TimeUnit.SECONDS, "initialize");
            manager.beginTransaction();
            // What it has just looked up of brokers that there are none of here.
            field("isTransactionV2Enabled").set(manager, version == 2);
            if (request.equals("ADD_OFFSETS") || request.equals("COMMIT_OFFSETS")) {
                manager.sendOffsetsToTransaction(Map.of(PLACE, new OffsetAndMetadata(1)), GROUP);
                asked = next();
                if (request.equals("COMMIT_OFFSETS") && version == 1) {
                    respond(asked, response("ADD_OFFSETS", Errors.NONE));
                    asked = next();
                }
            } else {
                manager.maybeAddPartition(PLACE);
                asked = next();
                if ((asked == null) != (version == 2)) {
                    throw new IllegalStateException("version " + version + " asked " + asked);
                }
                if (!request.equals("ADD_PARTITIONS") && version == 1) {
                    respond(asked, response("ADD_PARTITIONS", Errors.NONE));
                }
                if (request.equals("END")) {
                    manager.beginCommit();
                    asked = next();
                }
            }
        }
        Object before = field("currentState").get(manager);
        if (request.equals("PRODUCE")) {
            manager.maybeTransitionToErrorState(error.exception());
        } else {
            respond(asked, response(request, error));
        }
        Object after = field("currentState").get(manager);
        Object next = after == before ? next() : null;
        return (after == before ? "UNCHANGED" : after) + "|" + (next == null ? "" : next.getClass().getSimpleName());
    }

    private static AbstractResponse response(String request, Errors error) {
        switch (request) {
            case "FIND_COORDINATOR":
                return new FindCoordinatorResponse(new FindCoordinatorResponseData().setCoordinators(List.of(
                    new FindCoordinatorResponseData.Coordinator().setKey("billing-1").setErrorCode(error.code()))));
            case "INITIALIZE":
                return new InitProducerIdResponse(new InitProducerIdResponseData()
                    .setErrorCode(error.code()).setProducerId(1).setProducerEpoch((short) 0));
            case "ADD_PARTITIONS":
                AddPartitionsToTxnPartitionResultCollection places = new AddPartitionsToTxnPartitionResultCollection();
                places.add(new AddPartitionsToTxnPartitionResult()
                    .setPartitionIndex(PLACE.partition()).setPartitionErrorCode(error.code()));
                AddPartitionsToTxnResponseData told = new AddPartitionsToTxnResponseData();
                told.resultsByTopicV3AndBelow().add(new AddPartitionsToTxnTopicResult()
                    .setName(PLACE.topic()).setResultsByPartition(places));
                return new AddPartitionsToTxnResponse(told);
            case "ADD_OFFSETS":
                return new AddOffsetsToTxnResponse(new AddOffsetsToTxnResponseData().setErrorCode(error.code()));
            case "COMMIT_OFFSETS":
                return new TxnOffsetCommitResponse(0, Map.of(PLACE, error));
            default:
                return new EndTxnResponse(new EndTxnResponseData().setErrorCode(error.code()));
        }
    }

    private Object next() throws Exception {
        return call(TransactionManager.class, manager, "nextRequest", false);
    }

    private void respond(Object asked, AbstractResponse response) throws Exception {
        field("inFlightRequestCorrelationId").set(manager, -1);
        call(asked.getClass(), asked, "handleResponse", response);
    }

    private Field field(String name) throws Exception {
        Field found = TransactionManager.class.getDeclaredField(name);
        found.setAccessible(true);
        return found;
    }

    private static Object call(Class<?> kind, Object target, String name, Object argument) throws Exception {
        for (Method method : kind.getDeclaredMethods()) {
            boolean fits = method.getName().equals(name) && method.getParameterCount() == 1;
            if (fits && (argument instanceof Boolean || method.getParameterTypes()[0].isInstance(argument))) {
                method.setAccessible(true);
                return method.invoke(target, argument);
            }
        }
        throw new NoSuchMethodException(name);
    }
}
