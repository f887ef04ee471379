import com.sun.tools.attach.VirtualMachine;
import java.util.StringJoiner;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** Tells what a running node of Apache Kafka, named by its process id, counts: a line for each bean, then its attributes. */
public class BeansOfKafka {
    public static void main(String[] arguments) throws Exception {
        VirtualMachine node = VirtualMachine.attach(arguments[0]);
        JMXServiceURL address = new JMXServiceURL(node.startLocalManagementAgent());
        node.detach();
        try (JMXConnector connector = JMXConnectorFactory.connect(address)) {
            MBeanServerConnection beans = connector.getMBeanServerConnection();
            for (ObjectName bean : beans.queryNames(new ObjectName("kafka.*:*"), null)) {
                StringJoiner line = new StringJoiner("|");
                line.add(bean.getDomain() + ":" + bean.getKeyPropertyListString());
                for (MBeanAttributeInfo attribute : beans.getMBeanInfo(bean).getAttributes()) {
                    line.add(attribute.getName());
                }
                System.out.println(line);
            }
        }
    }
}
